// The tensors of a step that are under way between stages: received and not yet used, produced and
// not yet sent, in transfer.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backend/executor/exchange.hpp"
#include "backend/executor/rank.hpp"

namespace penstock {

/// Between stages of this rank values are handed over at once, without a copy; to and from stages
/// of others by the SENDs and RECVs of the rank's program. Positions are those of the program.
class Mailbox {
 public:
  /// `receive_depth` RECVs of each channel are posted ahead. `rank` outlives it.
  Mailbox(const Rank& rank, int receive_depth);

  /// From now on transfers go through another communicator; between steps.
  void use(Communicator& communicator) { exchange_.use(communicator); }
  /// Are there receives that occupy the device until their message has come?
  bool receives_spin() const { return exchange_.receives_spin(); }

  /// Forgets the step before and posts the first receives.
  void begin_step();
  /// The action at `position` is enqueued: posts the receives that needed it.
  void enqueued(size_t position) { exchange_.enqueued(position); }
  /// Waits for the sends that are still in transfer.
  void finish_step() { exchange_.finish_step(); }

  /// The values that the stage received for its F. They are taken: a second call has none.
  Values take_inputs(int stage, int microbatch);
  /// The gradients of the values that the stage sent, summed over the consumers in ascending order
  /// of stage, whatever order they came in. They are taken as well.
  Values take_gradients(int stage, int microbatch);
  /// Delivers the values that the stage's F sends.
  void put_outputs(int stage, int microbatch, const Values& sent);
  /// Delivers the gradients that the stage's B or I returns.
  void put_gradients(int stage, int microbatch, const Values& returned);

  /// Starts the SEND at `position`, unless it has been started early. Throws std::logic_error where
  /// its values are not there.
  void send(size_t position);
  /// Starts those SENDs right behind the OVERLAP_F_B at `position` that send what its forward
  /// produced: they move while its backward computes.
  void send_early(size_t position);
  /// Waits for the RECV at `position` and delivers its values.
  void receive(size_t position);

  /// Bytes that the transfer at `position` moves.
  int64_t bytes(size_t position) const { return exchange_.bytes(position); }

 private:
  using Slot = std::pair<int, int>;  // stage, microbatch
  void deliver(int from, int to, int microbatch, bool gradients, const Values& values);

  const Rank& rank_;
  Exchange exchange_;
  std::map<Slot, Values> inputs_;                                           // by consumer
  std::map<Slot, std::map<ValueId, std::map<int, at::Tensor>>> gradients_;  // by consumer stage
  std::map<std::tuple<int, int, int, bool>, Values> outbox_;  // from, to, microbatch, gradients
  std::set<size_t> sent_early_;                               // positions of SENDs
};

}  // namespace penstock
