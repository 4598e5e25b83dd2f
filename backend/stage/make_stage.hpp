// The factory of stages: the one place that knows the implementations.
#pragma once

#include <memory>

#include "backend/stage/captured_actions.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// Stage `stage` of `slicing`:
///   WholeStage      where `StageSlice::recomputed` covers none or all of its operators;
///   SegmentedStage  where it recomputes some of them, made of a WholeStage for each part;
///   ReplayedStage   around either, where `captured` is given: actions are then run, captured or
///                   replayed as it says.
/// `store` holds the stage's tensors. `loss` is computed by the stage that produces the model's
/// first output. All arguments outlive the stage. Throws as WholeStage does.
std::unique_ptr<Stage> make_stage(const Graph& graph, const Analysis& analysis,
                                  const Slicing& slicing, int stage, TensorStore& store,
                                  const LossSpec& loss, CapturedActions* captured = nullptr);

}  // namespace penstock
