// A worker's run of a plan for a script, which feeds the batches: it does what it is asked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "backend/communication/rendezvous.hpp"
#include "backend/executor/evaluator.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/loaded_plan.hpp"
#include "backend/worker/request.hpp"
#include "backend/worker/snapshots.hpp"

namespace penstock {

/// A rank of a run, loaded and connected; all of it outlives the service.
struct ServingRank {
  const WorkerTask& worker;
  const ExecuteTask& task;
  const LoadedPlan& loaded;
  const Model& model;
  Executor& executor;
  Communicator& communicator;
  ComputeDevice& device;
  Seat seat;
  int64_t first_step = 0;          // of this process
  Snapshots* snapshots = nullptr;  // where the run survives
  /// Begins one, of the state before that step.
  std::function<void(int64_t next_step)> snapshot = [](int64_t) {};
};

/// The batches that the scripts pass, whole.
Data fed_data(const SharedBatch& batch, const LoadedPlan& loaded);

class Service {
 public:
  explicit Service(const ServingRank& rank);

  /// Carries out requests, and answers each with the event `done`, until it is asked to close.
  /// Returns whether all ranks were. Throws whatever ends a run.
  bool run();

 private:
  using Json = nlohmann::json;
  Json answer(const Request& request);
  Json step(const Json& given);
  Json evaluate(const Request& request);
  Json forward(const Request& request);
  Json state_dict();
  Json save(const Request& request);
  Json load(const Request& request);
  using TakePart = std::function<void(const ValidationPart& part, const StepResult& result)>;
  void run_parts(const Request& request, bool with_target, const TakePart& take);
  PartEvaluation& evaluation_of(const ValidationPart& part, bool with_target);
  at::Tensor rows_of(const ValidationPart& part, const at::Tensor& output) const;
  Json shared(const NamedTensors& tensors) const;
  /// For a batch that is in the slot of the next step, but none of the training's.
  int64_t step_of_slot() const { return step_ % rank_.task.batch.slots; }

  ServingRank rank_;
  int64_t step_;                        // the next one
  int64_t saved_ = 0;                   // checkpoints
  std::optional<Agreement> agreement_;  // where each rank has a script of its own
  struct Evaluation {
    ValidationPart part;  // that its data are
    std::unique_ptr<PartEvaluation> run;
  };
  std::map<std::pair<int64_t, bool>, Evaluation>
      evaluations_;  // by microbatch, and with the target
};

}  // namespace penstock
