// The lanes of a program of compute actions: what each stage hands on to others, and over which
// channels. A lane carries one message for each microbatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "pipeline/program/flow_table.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/engine/link_times.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

/// A value that a stage hands on, or a gradient that it hands back.
struct Lane {
  int32_t receiver = 0;  // rank
  int32_t channel = -1;  // -1: within a rank
  Payload payload;
  double propagation_s = 0;
  size_t first = 0;  // its microbatch 0 among the messages of all lanes
};

class Lanes {
 public:
  /// By stage, one way: what it needs and what it gives, as indices of lanes.
  struct Ends {
    std::vector<int32_t> needs, gives;
  };
  struct Channel {
    int sender = 0, receiver = 0;  // ranks
    int64_t messages = 0;          // in all
    Route route;
  };

  Lanes(const Program& program, const FlowTable& flows, const Costs& costs, const Network& network);

  const Lane& operator[](int32_t lane) const { return lanes_[static_cast<size_t>(lane)]; }
  const Ends& ends(int stage, bool backward) const {
    return ends_[backward][static_cast<size_t>(stage)];
  }
  const std::vector<Channel>& channels() const { return channels_; }
  /// Messages of all lanes.
  size_t messages() const { return lanes_.size() * microbatches_; }
  /// Some channel shares links with others that can slow it.
  bool share_links() const;

 private:
  void add(const Program& program, const Flow& flow, bool backward, const Costs& costs);
  int32_t channel(int sender, int receiver, bool backward);
  void add_routes(const Network& network);

  size_t microbatches_;
  std::vector<Lane> lanes_;
  std::vector<Ends> ends_[2];  // forward, backward; by stage
  std::vector<Channel> channels_;
  std::map<std::tuple<int, int, bool>, int32_t> channel_ids_;  // by sender, receiver, backward
};

}  // namespace penstock
