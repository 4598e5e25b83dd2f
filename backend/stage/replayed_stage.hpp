// A stage whose actions are recorded once and replayed from then on.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "backend/device/recorder.hpp"
#include "backend/stage/segments.hpp"

namespace penstock {

/// What SegmentedStage promises, with the same results whether it runs or replays. Each action of
/// each microbatch has a recording of its own: replayed in the order of the program, they need
/// together about the memory that the stage takes when it runs. What goes in and out is copied, on
/// the computing stream, so that nothing outside of the recordings lies in their memory but
/// gradients of parameters.
class ReplayedStage {
 public:
  /// Runs, at first.
  explicit ReplayedStage(std::unique_ptr<SegmentedStage> stage) : stage_(std::move(stage)) {}

  /// From now on actions are recorded: their results have shapes but no values, and the gradients
  /// that the store then gets are where replays leave them. Stages that share a recorder are
  /// recorded together: a whole step, each action once. `recorder` outlives the recording. An
  /// action throws what Recorder::record throws, and std::runtime_error where it is given a value
  /// of the host.
  void record(Recorder& recorder);
  /// From now on recordings are replayed; actions come in the order in which they were recorded.
  /// Throws std::logic_error for an action that was not.
  void replay();
  /// From now on it runs again; recordings and unfinished microbatches are forgotten.
  void run();

  Stage::Forward forward(int microbatch, const Values& inputs,
                         const std::optional<at::Tensor>& target, const StepContext& context);
  Values backward(int microbatch, const Values& gradients);
  Values backward_input(int microbatch, const Values& gradients);
  void backward_weight(int microbatch);
  void finish_step();

  bool needs_target() const { return stage_->needs_target(); }
  bool has_random() const { return stage_->has_random(); }

 private:
  enum class Part { forward, backward, backward_input, backward_weight, end };
  using Key = std::pair<Part, int>;  // and the microbatch
  /// What an action is given: a backward gradients as its values.
  struct Given {
    Values values;
    std::optional<at::Tensor> target;
    std::optional<at::Tensor> loss_scale;  // while it is recorded or replayed
  };
  struct Action {
    std::unique_ptr<Recording> recording;
    Given given;             // where replays find what they are given …
    Stage::Forward results;  // … and leave what they give
  };
  template <class Work>
  Stage::Forward perform(Key key, const Given& given, Work work);
  template <class Work>
  Stage::Forward record(Key key, const Given& given, Work work);
  Stage::Forward replay(Action& action, const Given& given);

  std::unique_ptr<SegmentedStage> stage_;
  Recorder* recorder_ = nullptr;  // while it records
  bool replays_ = false;
  std::map<Key, Action> actions_;
};

}  // namespace penstock
