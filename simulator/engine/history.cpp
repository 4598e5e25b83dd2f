#include "simulator/engine/history.hpp"

#include <algorithm>

namespace penstock {

History::History(const CompiledProgram& compiled, const EngineResult& times, SendMode mode)
    : compiled_(compiled),
      times_(times),
      reached_s_(compiled.tasks.size()),
      taker_(compiled.messages.size(), -1),
      takings_(compiled.messages.size(), -1),
      taken_count_(compiled.channels.size(), 0) {
  for (int rank = 0; rank < compiled.rank_count(); ++rank) {
    double now_s = 0, reduced_s = 0;
    const int32_t end = compiled.rank_begin[index(rank + 1)];
    for (int32_t task = compiled.rank_begin[index(rank)]; task < end; ++task) {
      const Task::Op op = compiled.tasks[index(task)].op;
      if (op == Task::Op::agree) now_s = std::max(now_s, reduced_s);
      reached_s_[index(task)] = now_s;
      switch (op) {
        case Task::Op::send:
          if (mode == SendMode::rendezvous) now_s = end_s(task);
          break;
        case Task::Op::post: break;
        case Task::Op::reduce: reduced_s = std::max(reduced_s, end_s(task)); break;
        case Task::Op::compute:
        case Task::Op::receive: note_takings(task); [[fallthrough]];
        case Task::Op::agree: now_s = end_s(task); break;
      }
    }
  }
}

void History::note_takings(int32_t task) {
  for (int32_t id = compiled_.tasks[index(task)].message; id >= 0; id = message(id).next_awaited) {
    taker_[index(id)] = task;
    const Channel& channel = channel_of(id);
    takings_[index(channel.first + taken_count_[index(message(id).channel)]++)] = id;
  }
}

bool History::waited_for(int32_t id) const {
  const int32_t receive = message(id).receive_task;
  return end_s(receive) > start_s(receive);
}

int32_t History::taken_before(int32_t id) const {
  int32_t before = -1;
  for (int32_t at = compiled_.tasks[index(taker(id))].message; at != id;
       at = message(at).next_awaited) {
    before = at;
  }
  return before;
}

int32_t History::taking(const Channel& channel, int32_t n) const {
  return n < channel.count ? takings_[index(channel.first + n)] : -1;
}

}  // namespace penstock
