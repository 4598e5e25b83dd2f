#include "simulator/explain/critical_path.hpp"

#include <algorithm>
#include <stdexcept>

#include "simulator/engine/history.hpp"

namespace penstock {

namespace {

using Part = PathStep::Part;
using Cause = PathStep::Cause;

/// A moment of the run that something else waited for.
struct Moment {
  enum class What : uint8_t {
    reached,  // a rank had come to task `id`, the end of its tasks included
    asked,    // a rank asked for message `id`
    taken,    // … and went on with it
    moved,    // the last byte of message `id` had left
    start     // of the step
  };
  What what = What::start;
  int32_t id = -1;
  int rank = 0;  // of `reached`
};

class Walk {
 public:
  Walk(const Program& program, const CompiledProgram& compiled, const EngineResult& times,
       const Network& network)
      : program_(program),
        compiled_(compiled),
        times_(times),
        link_(network.link()),
        history_(compiled, times, link_.mode) {}

  CriticalPath run() {
    path_.rank_s.assign(times_.ranks.size(), 0);
    Moment at = last_end();
    while (at.what != Moment::What::start) at = before(at);
    if (from_s_ > 0) add_wait(0);
    std::ranges::reverse(path_.steps);
    if (!path_.steps.empty()) path_.steps.front().cause = Cause::start;
    for (const PathStep& step : path_.steps) account(step);
    return std::move(path_);
  }

 private:
  Moment last_end() {
    const auto last = std::ranges::max_element(times_.ranks, {}, &RankTimes::now_s);
    if (last == times_.ranks.end()) return {};
    from_s_ = last->now_s;
    const auto rank = static_cast<int>(last - times_.ranks.begin());
    return {Moment::What::reached, compiled_.rank_begin[static_cast<size_t>(rank) + 1], rank};
  }

  /// Adds what ended at that moment, if anything did, and goes to the moment that it waited for.
  Moment before(Moment moment) {
    switch (moment.what) {
      case Moment::What::reached: return before_reached(moment.id, moment.rank);
      case Moment::What::asked: return before_asked(moment.id);
      case Moment::What::taken:
        if (!history_.waited_for(moment.id)) return before_asked(moment.id);
        add_transfer(moment.id, history_.end_s(history_.message(moment.id).receive_task));
        return before_transfer(moment.id);
      case Moment::What::moved:
        add_transfer(moment.id, history_.end_s(history_.message(moment.id).send_task));
        return before_transfer(moment.id);
      case Moment::What::start: break;
    }
    return {};
  }

  Moment before_reached(int32_t task, int rank) {
    bool queued = false;  // behind an earlier all-reduce, not behind compute
    while (--task >= compiled_.rank_begin[static_cast<size_t>(rank)]) {
      const Task& done = compiled_.tasks[static_cast<size_t>(task)];
      if (queued && done.op != Task::Op::reduce) continue;
      switch (done.op) {
        case Task::Op::post: break;
        case Task::Op::receive:
          if (history_.waited_for(done.message)) waited_for(Cause::message);
          return {Moment::What::taken, done.message};
        case Task::Op::send:
          if (link_.mode != SendMode::rendezvous ||
              history_.end_s(task) <= history_.reached_s(task)) {
            break;
          }
          waited_for(Cause::message);
          return {Moment::What::moved, done.message};
        case Task::Op::reduce:
          if (compiled_.reductions[static_cast<size_t>(done.message)].sums.empty()) break;
          if (history_.end_s(task) != from_s_) break;  // compute hides it
          add_reduction(task, rank);
          queued = history_.start_s(task) > history_.reached_s(task);
          break;
        case Task::Op::compute:
        case Task::Op::agree: return before_compute(task, rank);
      }
    }
    return {};
  }

  /// The part of the sums that is not hidden by the backward that filled their buckets.
  void add_reduction(int32_t task, int rank) {
    const auto position =
        static_cast<size_t>(task - compiled_.rank_begin[static_cast<size_t>(rank)]);
    add({.part = Part::reduce,
         .cause = Cause::previous,
         .rank = rank,
         .action = program_.ranks[static_cast<size_t>(rank)][position],
         .start_s = std::max(history_.start_s(task), history_.reached_s(task)),
         .end_s = history_.end_s(task)});
  }

  Moment before_compute(int32_t task, int rank) {
    const Task& done = compiled_.tasks[static_cast<size_t>(task)];
    if (!compiled_.shares_cores(rank) &&
        history_.end_s(task) > history_.start_s(task) + done.duration_s) {
      return before_launch(task, rank);
    }
    add({.part = Part::compute,
         .cause = Cause::previous,
         .rank = rank,
         .action = program_.ranks[static_cast<size_t>(rank)][static_cast<size_t>(
             task - compiled_.rank_begin[static_cast<size_t>(rank)])],
         .start_s = history_.start_s(task),
         .end_s = history_.end_s(task)});
    if (done.op == Task::Op::agree) return before_agreement(task, rank);
    int32_t needed = -1;  // the last of its messages that was waited for
    for (int32_t id = done.message; id >= 0; id = history_.message(id).next_awaited) {
      if (history_.waited_for(id)) needed = id;
    }
    if (needed < 0) return {Moment::What::reached, task, rank};
    waited_for(Cause::message);
    return {Moment::What::taken, needed};
  }

  /// A host waits for nothing but the agreement, so it has issued since then, or since the start.
  Moment before_launch(int32_t task, int rank) {
    int32_t agreed = task;
    const int32_t first = compiled_.rank_begin[static_cast<size_t>(rank)];
    while (agreed >= first && compiled_.tasks[static_cast<size_t>(agreed)].op != Task::Op::agree) {
      --agreed;
    }
    add({.part = Part::launch,
         .cause = Cause::agreement,
         .rank = rank,
         .action = program_.ranks[static_cast<size_t>(rank)][static_cast<size_t>(task - first)],
         .start_s = agreed < first ? 0 : history_.start_s(agreed),
         .end_s = history_.end_s(task)});
    return agreed < first ? Moment{} : before_agreement(agreed, rank);
  }

  /// To the last rank that came to its OPT; this one if it was among the last.
  Moment before_agreement(int32_t task, int rank) {
    Moment last{Moment::What::reached, task, rank};
    for (int other = 0; other < compiled_.rank_count(); ++other) {
      const int32_t end = compiled_.rank_begin[static_cast<size_t>(other) + 1];
      int32_t at = compiled_.rank_begin[static_cast<size_t>(other)];
      while (at < end && compiled_.tasks[static_cast<size_t>(at)].op != Task::Op::agree) ++at;
      if (at == end || history_.reached_s(at) <= history_.reached_s(last.id)) continue;
      last = {Moment::What::reached, at, other};
    }
    if (last.rank != rank) waited_for(Cause::agreement);
    return last;
  }

  Moment before_asked(int32_t id) {
    const int32_t earlier = history_.taken_before(id);
    if (earlier >= 0) return {Moment::What::taken, earlier};
    return {Moment::What::reached, history_.taker(id), history_.channel_of(id).receiver};
  }

  /// The moment that message `id` was waiting for when it began to move: whichever came last.
  Moment before_transfer(int32_t id) {
    const int32_t send = history_.message(id).send_task;
    const Channel& channel = history_.channel_of(id);
    const Moment sent{Moment::What::reached, send, channel.sender};
    const double sent_s = history_.reached_s(send), start_s = history_.start_s(send);
    waited_for(Cause::previous);
    if (sent_s == start_s) return sent;
    const int32_t ahead = id > channel.first ? id - 1 : -1;
    const double free_s = ahead < 0 ? 0 : history_.end_s(history_.message(ahead).send_task);
    if (ahead >= 0 && free_s == start_s) {
      waited_for(Cause::channel);
      return {Moment::What::moved, ahead};
    }
    const Moment posted = when_posted(id, channel, start_s);
    if (posted.what != Moment::What::start) {
      waited_for(Cause::receive);
      return posted;
    }
    if (free_s <= sent_s) return sent;
    waited_for(Cause::channel);
    return {Moment::What::moved, ahead};
  }

  /// The receiver's deed at that time that let the message move; `start` if it did nothing then.
  Moment when_posted(int32_t id, const Channel& channel, double time_s) const {
    if (link_.mode == SendMode::eager) return {};
    if (link_.mode == SendMode::rendezvous || link_.receive_depth == 0) {
      const int32_t receive = history_.message(id).receive_task;
      if (history_.reached_s(receive) != time_s) return {};
      return {Moment::What::reached, receive, channel.receiver};
    }
    const int32_t number = id - channel.first - link_.receive_depth;
    if (number < 0) return {};
    const int32_t taken = history_.taking(channel, number);
    if (taken >= 0 && history_.end_s(history_.message(taken).receive_task) == time_s) {
      return {Moment::What::taken, taken};
    }
    for (int32_t later = id; later < channel.first + channel.count; ++later) {
      if (history_.taker(later) < 0) continue;
      if (history_.start_s(history_.message(later).receive_task) != time_s) continue;
      return {Moment::What::asked, later};
    }
    return {};
  }

  void add_transfer(int32_t id, double end_s) {
    const int32_t send = history_.message(id).send_task;
    const Channel& channel = history_.channel_of(id);
    add({.part = Part::transfer,
         .rank = channel.sender,
         .receiver = channel.receiver,
         .action = action_of_task(program_, compiled_, send),
         .start_s = history_.start_s(send),
         .end_s = end_s});
  }

  void add(const PathStep& step) {
    if (step.end_s < from_s_) add_wait(step.end_s);
    path_.steps.push_back(step);
    from_s_ = step.start_s;
  }

  void add_wait(double since_s) {
    PathStep wait{
        .part = Part::wait, .cause = Cause::unknown, .start_s = since_s, .end_s = from_s_};
    if (!path_.steps.empty()) {
      wait.rank = path_.steps.back().rank;
      wait.action = path_.steps.back().action;
    }
    path_.steps.push_back(wait);
    from_s_ = since_s;
  }

  /// The cause of the step added last, which is the one that comes next in time.
  void waited_for(Cause cause) {
    if (!path_.steps.empty()) path_.steps.back().cause = cause;
  }

  void account(const PathStep& step) {
    const double seconds = step.end_s - step.start_s;
    switch (step.part) {
      case Part::compute: path_.compute_s += seconds; break;
      case Part::reduce: path_.reduce_s += seconds; break;
      case Part::transfer: path_.transfer_s += seconds; return;
      case Part::launch: path_.launch_s += seconds; break;
      case Part::wait: path_.wait_s += seconds; return;
    }
    path_.rank_s[static_cast<size_t>(step.rank)] += seconds;
  }

  const Program& program_;
  const CompiledProgram& compiled_;
  const EngineResult& times_;
  const Link& link_;
  const History history_;
  CriticalPath path_;  // backwards until the end of `run`
  double from_s_ = 0;  // what follows is on the path already
};

}  // namespace

CriticalPath critical_path(const Program& program, const CompiledProgram& compiled,
                           const EngineResult& times, const Network& network) {
  if (!times.finished || times.start_s.size() != compiled.tasks.size()) {
    throw std::invalid_argument("critical_path: the run is not finished or has no recorded times");
  }
  return Walk(program, compiled, times, network).run();
}

}  // namespace penstock
