#include "backend/profiler/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace penstock::profiler {

std::vector<int64_t> microbatch_sizes(const Graph& graph, int64_t global_batch,
                                      const std::string& place) {
  const int64_t min_size = graph.dynamic_batch ? graph.min_batch : graph.example_batch;
  const int64_t max_size = graph.dynamic_batch ? graph.max_batch : graph.example_batch;
  std::vector<int64_t> sizes;
  for (int64_t size = std::max<int64_t>(min_size, 1); size <= std::min(max_size, global_batch);
       ++size) {
    if (global_batch % size == 0) sizes.push_back(size);
  }
  if (sizes.empty()) {
    const std::string allowed = graph.dynamic_batch ? fmt::format("at least {}", min_size)
                                                    : fmt::format("exactly {}", min_size);
    throw InputError(place,
                     fmt::format("global_batch {} has no divisor that the model allows as a "
                                 "microbatch: {} samples",
                                 global_batch, allowed),
                     graph.dynamic_batch
                         ? "choose a larger global_batch"
                         : fmt::format("make global_batch a multiple of {}, or export the model "
                                       "without --static",
                                       min_size));
  }
  std::stable_partition(sizes.begin(), sizes.end(), [](int64_t size) {
    return std::has_single_bit(static_cast<uint64_t>(size));
  });
  return sizes;
}

namespace {

double min_steps(int64_t size, int64_t global_batch, const Effort& effort) {
  return effort.minimum.passes() * static_cast<double>(size) / static_cast<double>(global_batch);
}

}  // namespace

std::vector<int64_t> affordable(const std::vector<int64_t>& sizes, int64_t global_batch,
                                const Effort& effort) {
  std::vector<int64_t> taken;
  double steps = 0;
  for (const int64_t size : sizes) {
    const double least = min_steps(size, global_batch, effort);
    if (steps + least > effort.steps) continue;
    steps += least;
    taken.push_back(size);
  }
  return taken;
}

double allowed_steps(const std::vector<int64_t>& sizes, size_t i, int64_t global_batch,
                     const Effort& effort) {
  // Small microbatches are noisier: each size gets a fixed share besides one by its samples.
  const double extra = static_cast<double>(*std::ranges::max_element(sizes)) / 16;
  double weights = 0, left = effort.steps;
  for (const int64_t size : sizes) {
    weights += static_cast<double>(size) + extra;
    left -= min_steps(size, global_batch, effort);
  }
  return min_steps(sizes[i], global_batch, effort) +
         left * (static_cast<double>(sizes[i]) + extra) / weights;
}

Repetitions repetitions(double passes, const Repetitions& minimum) {
  const double rounds = (passes - minimum.passes() - 2) / 2;  // beyond the minimum, with warm-ups
  const auto more = [&](int base, double part) {
    return static_cast<int>(std::clamp(base + rounds * part, double(base), 100.0));
  };
  return {more(minimum.whole, 0.45), more(minimum.units, 0.35), more(minimum.operators, 0.2)};
}

}  // namespace penstock::profiler
