#include "backend/worker/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/data/safetensors.hpp"
#include "backend/executor/kept_buffers.hpp"
#include "backend/operators/dtype.hpp"
#include "backend/worker/checkpoint.hpp"
#include "backend/worker/collector.hpp"
#include "backend/worker/events.hpp"
#include "launch/shared_memory.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/job/expected_samples.hpp"

namespace penstock {

namespace {

/// JSON has no infinity and nothing that is not a number.
nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

/// Keys of a store with a prefix: a run may save at the same step again, with other tensors.
class PartOfStore : public SharedStore {
 public:
  PartOfStore(SharedStore& whole, std::string prefix) : whole_(whole), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override {
    whole_.set(prefix_ + key, value);
  }
  std::string get(const std::string& key) override { return whole_.get(prefix_ + key); }
  std::optional<std::string> get_within(const std::string& key, double seconds) override {
    return whole_.get_within(prefix_ + key, seconds);
  }
  void append(const std::string& key, const std::string& value) override {
    whole_.append(prefix_ + key, value);
  }

 private:
  SharedStore& whole_;
  const std::string prefix_;
};

}  // namespace

Service::Service(const ServingRank& rank) : rank_(rank), step_(rank.first_step) {
  if (!rank.worker.launched || rank.worker.world_size == 1) return;
  const Plan& plan = rank.loaded.plan;
  std::vector<std::string> names;
  for (const ExpectedSample& sample : expected_samples(plan.job, rank.loaded.whole()))
    names.push_back(sample.name);
  agreement_.emplace(plan.place_of(rank.worker.rank).replica, static_cast<int>(plan.data_parallel),
                     std::move(names), rank.communicator, rank.seat);
}

bool Service::run() {
  while (const auto request = next_request()) {
    const bool closes = request->call == "close";
    const int64_t before = step_;
    Json done{{"event", "done"}, {"id", request->id}};
    try {
      if (agreement_) agreement_->check(*request, step_);
      if (closes) return true;
      done["result"] = answer(*request);
    } catch (const Refused& error) {
      done["refused"] = error.what();
    } catch (const ScriptEnded&) {
      if (closes) return false;
      throw;
    }
    done["steps_done"] = step_;
    emit(done);  // before there is a snapshot of what it has done: it could not be done again
    if (request->call == "step" && step_ > before) rank_.snapshot(step_);
  }
  return false;
}

Service::Json Service::answer(const Request& request) {
  if (request.call == "step") return step(request.given);
  if (request.call == "evaluate") return evaluate();
  if (request.call == "forward") return forward();
  if (request.call == "state_dict") return state_dict();
  if (request.call == "save") return save(request);
  if (request.call == "load") return load(request);
  throw std::logic_error("a worker cannot " + request.call);
}

Service::Json Service::step(const Json& given) {
  std::optional<double> rate;
  if (!given.at("learning_rate").is_null()) rate = given.at("learning_rate").get<double>();
  KeptBuffers before(rank_.loaded.graph, rank_.executor.store());
  try {
    const StepResult result = rank_.executor.run_step(step_, rate);
    ++step_;
    Json answer{{"loss", result.loss}, {"step_s", result.step_s}};
    if (result.gradient_norm) answer["gradient_norm"] = *result.gradient_norm;
    return answer;
  } catch (const LossNotFinite& error) {  // on all ranks
    before.restore();
    return {{"not_finite", error.what()}};
  }
}

const InEvaluation& Service::in_evaluation() {
  if (!evaluation_) evaluation_ = std::make_unique<InEvaluation>(rank_.model);
  return *evaluation_;
}

/// An executor of forwards in evaluation mode on the training's tensors, made when first needed.
Executor& Service::executor_of(std::unique_ptr<Data>& data, std::unique_ptr<Executor>& executor,
                               bool with_target) {
  if (!executor) {
    const Plan& plan = rank_.loaded.plan;
    data = std::make_unique<Data>(rank_.task.batch, plan.job, rank_.loaded.whole(), with_target);
    executor = std::make_unique<Executor>(in_evaluation().model(), *data, rank_.communicator,
                                          /*receive_depth=*/2, rank_.device,
                                          rank_.executor.shared_store());
  }
  return *executor;
}

Service::Json Service::evaluate() {
  const StepResult result = executor_of(samples_, evaluating_, true).run_step(step_of_slot());
  return {{"loss", result.loss_weight > 0 ? finite(result.loss) : Json()}};
}

Service::Json Service::forward() {
  const Collector collector(rank_.loaded, rank_.communicator);
  const StepResult result = executor_of(inputs_, forwarding_, false).run_step(step_of_slot());
  return shared(collector.outputs_of_step(result.outputs));
}

Service::Json Service::state_dict() {
  const Collector collector(rank_.loaded, rank_.communicator);
  return shared(collector.state_dict(rank_.executor.store(), rank_.model.weights));
}

/// Puts the tensors into the script's memory for results, on rank 0.
Service::Json Service::shared(const NamedTensors& tensors) const {
  if (rank_.worker.rank != 0) return Json();
  SharedLayout layout;
  std::vector<SharedTensor> places;
  for (const auto& [name, tensor] : tensors) {
    places.push_back({name, std::string(penstock::name(dtype_of(tensor.scalar_type()))),
                      tensor.sizes().vec(), layout.add(static_cast<int64_t>(tensor.nbytes()))});
  }
  resize_memory(rank_.task.results, layout.bytes());
  const SharedMemory memory(rank_.task.results, layout.bytes());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor tensor = tensors[i].second.to(at::kCPU).contiguous();
    std::ranges::copy(bytes_of(tensor), memory.bytes().begin() + places[i].offset);
  }
  return {{"tensors", places}, {"bytes", layout.bytes()}};
}

Service::Json Service::save(const Request& request) try {
  const Saving saving{.folder = request.given.at("folder").get<std::string>(),
                      .step = step_,
                      .keep = request.given.at("keep"),
                      .extra = request.extra};
  PartOfStore store(rank_.seat.store, fmt::format("saving/{}/", ++saved_));
  save_checkpoint(saving, rank_.loaded, rank_.executor, {store, rank_.seat.rank, rank_.seat.size});
  return {{"checkpoint", checkpoint_path(saving.folder, step_).string()}};
} catch (const InputError& error) {
  throw Refused(error);
}

Service::Json Service::load(const Request& request) {
  if (rank_.snapshots != nullptr) rank_.snapshots->forget();
  rank_.communicator.barrier();
  rank_.executor.optimizer().states().clear();
  load_checkpoint(request.given.at("checkpoint").get<std::string>(), rank_.loaded, rank_.executor);
  rank_.executor.refresh();
  for (Executor* other : {evaluating_.get(), forwarding_.get()})
    if (other != nullptr) other->refresh();
  step_ = request.given.at("step");
  rank_.snapshot(step_);
  if (rank_.snapshots != nullptr) rank_.snapshots->finish();
  rank_.communicator.barrier();
  return {{"extra", request.extra}};
}

}  // namespace penstock
