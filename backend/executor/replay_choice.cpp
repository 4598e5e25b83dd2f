#include "backend/executor/replay_choice.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "pipeline/plan/cuda_graphs.hpp"

namespace penstock {

namespace {

/// Why the rank's steps cannot be captured; "" where it can be tried.
std::string no_capture(const Rank& rank) {
  if (!rank.device.make_graph_capture()) return "this device records nothing";
  if (rank.group.parts() > 1)
    return "its operators are in parts (tensor_parallel), which meet within a recording";
  for (const auto& [index, stage] : rank.stages) {
    if (!stage->has_random()) continue;
    return "stage " + std::to_string(index) + " draws random numbers, others in each step";
  }
  return "";
}

/// Gives back what the stages took when they ran first: the graphs ask for it again.
void capture_step(Rank& rank, DrySteps& steps, int64_t step) {
  rank.store.drop_gradients();
  rank.device.give_back_memory();
  rank.captured.capture(rank.device.make_graph_capture());
  steps.issue(step);
  rank.captured_gradients = rank.store.gradients();
  rank.captured.replay();
}

/// Why the steps are not to be replayed; "" where they are.
std::string try_replay(Rank& rank, DrySteps& steps, int64_t step, CudaGraphs graphs,
                       int64_t state_bytes, Replaying& times) {
  const bool always = graphs == CudaGraphs::always;
  double issued_s = 0;
  times.run_s = seconds_on(rank.device, [&] { issued_s = steps.run(step); });
  if (!always && !worth_capturing(issued_s, times.run_s))
    return "the host is ahead of the GPU without them";
  times.run_s = std::min(times.run_s, steps.min_step_s(step));
  try {
    capture_step(rank, steps, step);
    steps.run(step);  // asks for the memory of arguments and results
    times.replayed_s = steps.min_step_s(step);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  if (always) return "";
  if (times.replayed_s >= times.run_s) return "a step of them takes longer";
  // The graphs' own memory is of no use to others.
  if (rank.device.available_bytes() - rank.captured.unheld_bytes() < state_bytes)
    return "they leave OPT no memory";
  return "";
}

}  // namespace

Replaying choose_replay(Rank& rank, DrySteps& steps, int64_t step, CudaGraphs graphs,
                        int64_t state_bytes) {
  Replaying choice;
  choice.why_not = no_capture(rank);
  if (choice.why_not.empty())
    choice.why_not = try_replay(rank, steps, step, graphs, state_bytes, choice);
  choice.on = choice.why_not.empty();
  if (!choice.on && !rank.captured.running()) {
    forget_graphs(rank);
    steps.run(step);  // asks for the memory again that it takes without
  }
  return choice;
}

void forget_graphs(Rank& rank) {
  if (rank.captured.running()) return;
  if (rank.captured.capturing()) {  // the capture failed
    for (auto& [index, stage] : rank.stages) stage->reset();
  }
  rank.captured_gradients.clear();
  rank.store.drop_gradients();
  rank.captured.forget();
  rank.device.give_back_memory();
}

}  // namespace penstock
