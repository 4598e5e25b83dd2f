// The channels of a lowered program: what each pair of ranks sends in each direction, in order.
#pragma once

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "pipeline/program/flow_table.hpp"

namespace penstock {

class Channels {
 public:
  /// Every transfer of the program serves a flow of the table.
  Channels(const Program& program, const FlowTable& table);

  /// Throws InputError unless the k-th SEND of every channel matches its k-th RECV.
  void check_matched(std::string_view place) const;

  /// Runs the program with SENDs that wait for nothing and RECVs that wait for their SEND. Throws
  /// InputError if a rank never gets to its end, naming what each waiting rank waits for.
  void check_finishes(std::string_view place) const;

 private:
  struct Channel {
    int from_rank, to_rank;
    std::vector<const Action*> sends, receives;
  };

  /// The number of the channel that a transfer uses.
  int channel_of(const Action& transfer) const;

  const Program& program_;
  const FlowTable& table_;
  std::vector<Channel> channels_;
  std::vector<int> forward_, backward_;  // by flow: its channel
};

}  // namespace penstock
