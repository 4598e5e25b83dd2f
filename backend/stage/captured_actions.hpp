// The actions of a rank's stages as captured graphs (on a GPU: CUDA graphs): captured once, then
// replayed in every step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "backend/device/graph_capture.hpp"
#include "backend/stage/stage.hpp"

namespace penstock {

/// The arguments of an action of a stage; a backward's values are its gradients.
struct ActionArguments {
  Values values;
  std::optional<at::Tensor> target;
  std::optional<at::Tensor> loss_scale;  // only while actions are captured or replayed
};

/// Each action of each microbatch has a graph of its own; replayed in the order in which they were
/// captured, they need together about the memory that the stages take when they run. Arguments and
/// results are copied, on the computing stream, so that nothing outside of the graphs lies in their
/// memory but gradients of parameters.
class CapturedActions {
 public:
  enum class Kind { forward, backward, backward_input, backward_weight, finish_step };
  using Key = std::tuple<int, Kind, int>;  // stage, kind, microbatch
  using Work = std::function<Stage::Forward(const ActionArguments&)>;

  /// Does `perform` run its work as it is, the state at first?
  bool running() const { return mode_ == Mode::run; }
  /// Are actions being captured?
  bool capturing() const { return mode_ == Mode::capture; }

  /// From now on `perform` captures: a whole step, each action once. Results have shapes but no
  /// values, and the gradients that the store then gets are where replays leave them.
  void capture(std::unique_ptr<GraphCapture> capture);
  /// From now on `perform` replays; actions come in the order in which they were captured.
  void replay() { mode_ = Mode::replay; }
  /// From now on `perform` runs again; graphs are dropped, and their memory with them.
  void forget();

  /// Runs, captures or replays `work`, whose stage computes on `device`. While capturing throws
  /// what GraphCapture::capture throws, and std::runtime_error for an argument that lies on the
  /// host of another device; while replaying std::logic_error for an action that was not captured.
  Stage::Forward perform(const Key& key, const ActionArguments& arguments, at::Device device,
                         const Work& work);

  /// Bytes of the graphs' memory that no tensor holds; 0 where nothing was captured.
  int64_t unheld_bytes() const { return capture_ ? capture_->unheld_bytes() : 0; }

 private:
  enum class Mode { run, capture, replay };
  struct Action {
    std::unique_ptr<CapturedGraph> graph;
    ActionArguments arguments;  // the memory from which replays read
    Stage::Forward results;     // the memory to which they write
  };
  Stage::Forward capture_action(const Key& key, const ActionArguments& arguments, at::Device device,
                                const Work& work);
  static Stage::Forward replay_action(Action& action, const ActionArguments& arguments);

  Mode mode_ = Mode::run;
  std::unique_ptr<GraphCapture> capture_;
  std::map<Key, Action> actions_;
};

}  // namespace penstock
