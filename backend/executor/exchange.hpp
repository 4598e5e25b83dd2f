// The transfers of one rank in flight: receives are posted ahead, sends never wait.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backend/executor/transfers.hpp"
#include "backend/stage/stage.hpp"

namespace penstock {

class Exchange {
 public:
  /// `depth` RECVs of each channel are posted ahead. `batch` gives the sizes, which are never sent.
  /// Where receives spin, none is posted before all actions of this rank that its message depends
  /// on are enqueued. `where`: the device of received tensors.
  Exchange(Communicator& communicator, RankTransfers transfers, const Graph& graph, int64_t batch,
           int depth, at::Device where = at::kCPU);
  ~Exchange();

  /// Uses another communicator from now on; between steps.
  void use(Communicator& communicator) { communicator_ = &communicator; }
  /// Are there receives that occupy the device until their message has come?
  bool receives_spin() const {
    return communicator_->receives_spin() && !transfers_.receives.empty();
  }
  /// Posts the first receives of a step.
  void begin_step();
  /// The action at `position` is enqueued: posts the receives that needed it.
  void enqueued(size_t position);
  /// Waits for the RECV at `position` of the rank's program and returns its values.
  Values receive(size_t position);
  /// Starts the SEND at `position`; its tensors are kept until they have arrived.
  void send(size_t position, const Values& values);
  /// Waits for the sends of the step that are still in flight.
  void finish_step();
  /// Bytes that the transfer at `position` moves.
  int64_t bytes(size_t position) const;

 private:
  struct Posted {
    Values values;
    std::vector<std::unique_ptr<Transfer>> transfers;
  };
  void post_due(PeerChannel channel);
  void post(PeerChannel channel, size_t position);
  void retire(PeerChannel channel, size_t count);

  Communicator* communicator_;
  RankTransfers transfers_;
  const Graph& graph_;
  int64_t batch_;
  int depth_;
  at::Device where_;
  size_t enqueued_ = 0;                         // the number of the rank's actions
  std::map<PeerChannel, size_t> next_receive_;  // the number of a channel's receives posted
  std::map<PeerChannel, size_t> received_;      // and completed
  std::map<size_t, Posted> receives_;           // by position
  std::map<PeerChannel, std::vector<std::vector<std::unique_ptr<Transfer>>>> sends_;
  std::map<PeerChannel, size_t> retired_;  // the number of a channel's sends completed
};

}  // namespace penstock
