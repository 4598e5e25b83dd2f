#include "pipeline/sharding/group_graphs.hpp"

#include <optional>
#include <utility>

#include "graph/sharding/choice/prices.hpp"
#include "pipeline/sharding/group_completion.hpp"

namespace penstock {

namespace {

/// One graph, or several where completions depend on the size.
void add_graphs(const Graph& model, const LossSpec& loss, const sharding::Pins& pins,
                const std::vector<int64_t>& sizes, int parts, std::vector<GroupGraph>& graphs) {
  const GroupCompletions completions(model, loss, pins, parts);
  std::optional<sharding::Completion> before;
  for (const int64_t size : sizes) {
    sharding::Completion completion = completions.at(size);
    if (!sharding::splits(completion)) return;
    if (!before || !sharding::same_layouts(*before, completion))
      graphs.push_back({parts, pins, {}, sharding::local_graph(model, completion)});
    graphs.back().sizes.push_back(size);
    before = std::move(completion);
  }
}

}  // namespace

std::vector<GroupGraph> group_graphs(const Graph& model, const LossSpec& loss,
                                     const sharding::Pins& asked, const std::vector<int64_t>& sizes,
                                     const std::vector<int>& parts) {
  const int64_t smallest = smallest_microbatch(model);
  std::vector<GroupGraph> graphs;
  for (const int count : parts) {
    for (const sharding::Pins& pins :
         sharding::fast_and_small(model, asked, smallest, sizes.back(), count, first_output(loss)))
      add_graphs(model, loss, pins, sizes, count, graphs);
  }
  return graphs;
}

}  // namespace penstock
