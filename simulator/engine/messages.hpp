// The bytes of a rank's messages along its program; memory.hpp says when they are there.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock {

class MessageBytes {
 public:
  /// `program` has transfers; one of compute alone has messages inside a rank only.
  MessageBytes(const Program& program, int rank, const Costs& costs);

  /// A RECV. `post` first, which posts the next one, then `retire`, of what has arrived by then.
  void post(const Action& receive);
  void retire(const Action& receive);
  /// The action's transient has them from here on …
  void begin(const Action& compute);
  /// … and it has made these.
  void end(const Action& compute);

  int64_t held() const { return held_; }

 private:
  using Lane = std::pair<int, bool>;  // the peer; gradients?
  /// The messages of a lane, in order.
  struct Receives {
    std::vector<int64_t> bytes;
    std::vector<std::pair<int, int>> arrived;  // this rank's sends that the peer had taken before
    size_t posted = 0, received = 0;
  };
  struct Sends {
    std::vector<int64_t> bytes;
    size_t retired = 0;
  };
  /// Bytes of one microbatch.
  struct Stage {
    int64_t forward_in = 0, forward_out = 0, backward_in = 0, backward_out = 0;
  };
  void list(const Program& program, int rank);
  void match(const Program& program, int rank, int peer);
  void add_flows(const Program& program, int rank);
  void retire(Lane lane, int count);
  int64_t kept_bytes(const Action& send) const;
  Lane lane_of(const Action& transfer) const;

  const Costs& costs_;
  const std::vector<int>& rank_of_stage_;
  std::map<Lane, Receives> receives_;
  std::map<Lane, Sends> sends_;
  std::vector<Stage> stages_;
  int64_t held_ = 0;
};

}  // namespace penstock
