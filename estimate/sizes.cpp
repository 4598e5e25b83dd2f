#include "estimate/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace penstock {

std::vector<int64_t> divisors_allowed(const Graph& graph, int64_t global_batch,
                                      const std::string& place) {
  const int64_t min_batch =
      std::max<int64_t>(graph.dynamic_batch ? graph.min_batch : graph.example_batch, 1);
  const int64_t max_batch = graph.dynamic_batch ? graph.max_batch : graph.example_batch;
  std::set<int64_t> divisors;
  for (int64_t low = 1; low <= global_batch / low; ++low)
    if (global_batch % low == 0) divisors.insert({low, global_batch / low});
  std::vector<int64_t> sizes(divisors.lower_bound(min_batch), divisors.upper_bound(max_batch));
  if (sizes.empty()) {
    throw InputError(
        place,
        fmt::format("global_batch {} has no divisor that the model allows as a "
                    "microbatch: {} {} samples",
                    global_batch, graph.dynamic_batch ? "at least" : "exactly", min_batch),
        graph.dynamic_batch ? "Choose a larger global_batch."
                            : fmt::format("Make it a multiple of {}, or export the "
                                          "model without --static.",
                                          min_batch));
  }
  return sizes;
}

}  // namespace penstock
