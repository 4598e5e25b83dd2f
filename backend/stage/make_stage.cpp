#include "backend/stage/make_stage.hpp"

#include "backend/stage/replayed_stage.hpp"
#include "backend/stage/segmented_stage.hpp"
#include "backend/stage/whole_stage.hpp"

namespace penstock {

std::unique_ptr<Stage> make_stage(const Graph& graph, const Analysis& analysis,
                                  const Slicing& slicing, int stage, TensorStore& store,
                                  const LossSpec& loss, CapturedActions* captured) {
  const std::vector<bool> recomputes = recomputed_parts(slicing, stage);
  std::unique_ptr<Stage> made;
  if (recomputes.size() > 1) {
    made = std::make_unique<SegmentedStage>(graph, analysis, slicing, stage, store, loss);
  } else {
    const bool recompute = !recomputes.empty() && recomputes.front();
    made = std::make_unique<WholeStage>(graph, analysis, slicing, stage, store, loss, recompute);
  }
  if (captured == nullptr) return made;
  return std::make_unique<ReplayedStage>(std::move(made), stage, *captured);
}

}  // namespace penstock
