// The past of a finished run: from the recorded times, when each rank came to
// each of its tasks, which task took each message, and in which order a channel's messages were
// taken. Times are looked up, never computed, so that they may depend on anything that the engine
// knows.
#pragma once

#include <vector>

#include "simulator/engine/engine.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

class History {
 public:
  /// `times` are recorded and finished; all three must outlive this. Linear in the number of tasks.
  History(const CompiledProgram& compiled, const EngineResult& times, SendMode mode);

  /// When the rank had done everything before this task.
  double reached_s(int32_t task) const { return reached_s_[index(task)]; }
  double start_s(int32_t task) const { return times_.start_s[index(task)]; }
  double end_s(int32_t task) const { return times_.end_s[index(task)]; }

  const Message& message(int32_t id) const { return compiled_.messages[index(id)]; }
  const Channel& channel_of(int32_t id) const {
    return compiled_.channels[index(message(id).channel)];
  }
  /// Some rank had to wait for the message: it took it later than it asked for it.
  bool waited_for(int32_t id) const;
  /// The task that took the message; -1: none did.
  int32_t taker(int32_t id) const { return taker_[index(id)]; }
  /// The message that the same task took just before this one; -1: none.
  int32_t taken_before(int32_t id) const;
  /// The message of `channel` that was taken as number `n`, from 0; -1: fewer were.
  int32_t taking(const Channel& channel, int32_t n) const;

 private:
  static size_t index(int32_t number) { return static_cast<size_t>(number); }
  void note_takings(int32_t task);

  const CompiledProgram& compiled_;
  const EngineResult& times_;
  std::vector<double> reached_s_;         // per task
  std::vector<int32_t> taker_, takings_;  // per message; like the messages, channel by channel
  std::vector<int32_t> taken_count_;      // per channel
};

}  // namespace penstock
