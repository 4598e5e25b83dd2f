// The ranks' reports to rank 0 at the end of a run.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "backend/worker/events.hpp"
#include "backend/worker/execution.hpp"

namespace penstock {

using Json = nlohmann::json;

namespace {

/// The step of median length among those after the warm-up.
size_t median_step(const std::vector<double>& step_s) {
  const size_t skipped = std::min<size_t>(kWarmUpSteps, step_s.size() - 1);
  std::vector<size_t> order(step_s.size() - skipped);
  std::iota(order.begin(), order.end(), skipped);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  std::nth_element(order.begin(), middle, order.end(),
                   [&](size_t a, size_t b) { return step_s[a] < step_s[b]; });
  return *middle;
}

}  // namespace

/// Rank 0's.
size_t Execution::agree_on_median_step() {
  if (worker_.rank == 0) seat_.store.set("median step", std::to_string(median_step(step_s_)));
  return std::stoull(seat_.store.get("median step"));
}

/// The timelines of all ranks for one step, in rank 0's time.
void Execution::report_timeline(size_t step) {
  Timeline own = timelines_.at(step);
  for (TimelineEvent& event : own) {
    event.start_s += clock_offset_s_;
    event.end_s += clock_offset_s_;
  }
  Timeline merged;
  for (const std::string& text : gather(seat_, "timeline", to_json(own).dump())) {
    const Timeline part = parse_timeline(Json::parse(text));
    merged.insert(merged.end(), part.begin(), part.end());
  }
  if (worker_.rank != 0) return;
  std::stable_sort(merged.begin(), merged.end(), [](const auto& a, const auto& b) {
    return std::pair(a.start_s, a.rank) < std::pair(b.start_s, b.rank);
  });
  const double start_s = merged.front().start_s;
  for (TimelineEvent& event : merged) {
    event.start_s -= start_s;
    event.end_s -= start_s;
  }
  emit({{"event", "timeline"},
        {"step", begin_ + static_cast<int64_t>(step)},
        {"events", to_json(merged)}});
}

namespace {

Json to_json(const Replaying& replaying) {
  return {{"on", replaying.on},
          {"why_not", replaying.why_not},
          {"without_s", replaying.run_s},
          {"with_s", replaying.replayed_s}};
}

}  // namespace

void Execution::report_summary(int64_t peak_bytes, double compute_s) {
  Json own{{"peak_memory_bytes", peak_bytes}, {"compute_s", compute_s}};
  if (gpu_) {
    own["peak_reserved_bytes"] = device().peak_reserved_bytes();
    own["cuda_graphs"] = to_json(replaying_);
  }
  Json ranks = Json::array();
  for (const std::string& text : gather(seat_, "summary", own.dump())) {
    ranks.push_back(Json::parse(text));
  }
  if (worker_.rank == 0) emit({{"event", "summary"}, {"ranks", ranks}});
  stay_until_all_are_done();
}

/// The process that hosts the store stays until all others have reported.
void Execution::stay_until_all_are_done() {
  gather(seat_of_process(worker_, seat_.store), "done", "");
}

}  // namespace penstock
