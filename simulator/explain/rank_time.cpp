#include "simulator/explain/rank_time.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "simulator/explain/stage_ranks.hpp"

namespace penstock {

namespace {

/// A stage's output or input gradient for a microbatch, on one of its ranks.
using MessageKey = std::tuple<int, int, int, bool>;  // rank's number, stage, microbatch, gradient

bool is_gradient(Kind kind) { return kind == Kind::send_backward || kind == Kind::recv_backward; }

/// When each message was on its way at the latest.
std::map<MessageKey, double> ready_times(const Timeline& timeline, const StageRanks& stages) {
  std::map<MessageKey, double> ready;
  const auto note = [&](const MessageKey& message, double time_s) {
    const auto [at, added] = ready.try_emplace(message, time_s);
    at->second = std::min(at->second, time_s);
  };
  for (const TimelineEvent& event : timeline) {
    const Action& action = event.action;
    const auto number = [&](int stage) { return stages.number(stage, event.rank); };
    if (is_send(action.kind)) {
      note({number(action.stage), action.stage, action.microbatch, is_gradient(action.kind)},
           event.start_s);
    } else if (is_compute(action.kind)) {
      for_each_part(action, [&](const Action& part) {
        if (part.kind == Kind::backward_weight) return;
        note({number(part.stage), part.stage, part.microbatch, part.kind != Kind::forward},
             event.end_s);
      });
    }
  }
  return ready;
}

/// Activities of a rank; its time counts as the first of those under way.
enum Activity : size_t { computing, optimizing, reducing, receiving, waiting, sending, activities };

struct ActivityChange {
  double time_s;
  Activity activity;
  int by;  // +1 where it begins, -1 where it ends
};

/// The changes of one rank's activities.
class RankActivities {
 public:
  void add(double start_s, double end_s, Activity activity) {
    if (end_s <= start_s) return;
    changes_.push_back({start_s, activity, 1});
    changes_.push_back({end_s, activity, -1});
  }

  /// Seconds by activity.
  std::array<double, activities> seconds() {
    std::ranges::sort(changes_, {}, &ActivityChange::time_s);
    std::array<double, activities> sums{};
    std::array<int, activities> active{};
    for (size_t i = 0; i < changes_.size(); ++i) {
      active[changes_[i].activity] += changes_[i].by;
      const auto first = std::ranges::find_if(active, [](int count) { return count > 0; });
      if (first == active.end()) continue;
      sums[static_cast<size_t>(first - active.begin())] +=
          changes_[i + 1].time_s - changes_[i].time_s;
    }
    return sums;
  }

 private:
  std::vector<ActivityChange> changes_;
};

}  // namespace

RankTime operator-(const RankTime& a, const RankTime& b) {
  return {a.compute_s - b.compute_s, a.waiting_s - b.waiting_s, a.transfers_s - b.transfers_s,
          a.reduction_s - b.reduction_s, a.optimizer_s - b.optimizer_s};
}

std::vector<RankTime> rank_times(const Timeline& timeline, int ranks) {
  const StageRanks stages(timeline);
  const std::map<MessageKey, double> ready = ready_times(timeline, stages);
  std::vector<RankActivities> changes(static_cast<size_t>(ranks));
  for (const TimelineEvent& event : timeline) {
    const Action& action = event.action;
    RankActivities& rank = changes[static_cast<size_t>(event.rank)];
    if (is_compute(action.kind)) {
      rank.add(event.start_s, event.end_s, computing);
    } else if (action.kind == Kind::optimizer) {
      rank.add(event.start_s, event.end_s, optimizing);
    } else if (action.kind == Kind::reduce_grad) {
      rank.add(event.start_s, event.end_s, reducing);
    } else if (is_send(action.kind)) {
      rank.add(event.start_s, event.end_s, sending);
    } else {
      const auto sent = ready.find({stages.number(action.stage, event.rank), peer_stage(action),
                                    action.microbatch, is_gradient(action.kind)});
      const double ready_s = sent == ready.end() ? event.end_s : sent->second;
      const double since_s = std::max(event.start_s, std::min(ready_s, event.end_s));
      rank.add(event.start_s, since_s, waiting);
      rank.add(since_s, event.end_s, receiving);
    }
  }
  const double step_s = makespan_s(timeline);
  std::vector<RankTime> times;
  for (RankActivities& rank : changes) {
    const auto seconds = rank.seconds();
    RankTime time{.compute_s = seconds[computing],
                  .transfers_s = seconds[receiving] + seconds[sending],
                  .reduction_s = seconds[reducing],
                  .optimizer_s = seconds[optimizing]};
    time.waiting_s = step_s - time.total_s();
    times.push_back(time);
  }
  return times;
}

std::vector<RankTime> errors(const Timeline& predicted, const Timeline& measured, int ranks) {
  std::vector<RankTime> differences = rank_times(predicted, ranks);
  const std::vector<RankTime> actual = rank_times(measured, ranks);
  for (size_t rank = 0; rank < actual.size(); ++rank)
    differences[rank] = differences[rank] - actual[rank];
  return differences;
}

RankTime mean(const std::vector<RankTime>& ranks) {
  RankTime sum;
  for (const RankTime& rank : ranks) {
    sum.compute_s += rank.compute_s;
    sum.waiting_s += rank.waiting_s;
    sum.transfers_s += rank.transfers_s;
    sum.reduction_s += rank.reduction_s;
    sum.optimizer_s += rank.optimizer_s;
  }
  const auto n = static_cast<double>(ranks.size());
  return {sum.compute_s / n, sum.waiting_s / n, sum.transfers_s / n, sum.reduction_s / n,
          sum.optimizer_s / n};
}

}  // namespace penstock
