// A worker's run of a plan for a script, which feeds the batches: it does what it is asked.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

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
  Json evaluate();
  Json forward();
  Json state_dict();
  Json save(const Request& request);
  Json load(const Request& request);
  const InEvaluation& in_evaluation();
  Executor& executor_of(std::unique_ptr<Data>& data, std::unique_ptr<Executor>& executor,
                        bool with_target);
  Json shared(const NamedTensors& tensors) const;
  /// For a batch that is in the slot of the next step, but none of the training's.
  int64_t step_of_slot() const { return step_ % rank_.task.batch.slots; }

  ServingRank rank_;
  int64_t step_;                        // the next one
  int64_t saved_ = 0;                   // checkpoints
  std::optional<Agreement> agreement_;  // where each rank has a script of its own
  std::unique_ptr<InEvaluation> evaluation_;
  std::unique_ptr<Data> samples_, inputs_;  // with and without the target
  std::unique_ptr<Executor> evaluating_, forwarding_;
};

}  // namespace penstock
