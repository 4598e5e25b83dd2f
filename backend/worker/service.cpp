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

Data fed_data(const SharedBatch& batch, const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  const ValidationPart whole{0, batch.samples, plan.microbatch};
  return {batch, places_of(whole, batch, plan), plan.job, loaded.whole(), /*with_target=*/true};
}

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
  while (auto request = next_request()) {
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
  if (request.call == "evaluate") return evaluate(request);
  if (request.call == "forward") return forward(request);
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

/// Forwards in evaluation mode on the training's tensors; made when first needed.
PartEvaluation& Service::evaluation_of(const ValidationPart& part, bool with_target) {
  const Plan& plan = rank_.loaded.plan;
  const std::pair key(part.microbatch, with_target);
  const auto known = evaluations_.find(key);
  if (known != evaluations_.end() && known->second.part == part) return *known->second.run;
  const SharedBatch& batch = rank_.task.batch;
  Data data(batch, places_of(part, batch, plan), plan.job, rank_.loaded.whole(), with_target);
  if (known != evaluations_.end()) {
    known->second.part = part;
    known->second.run->data = std::move(data);
    return *known->second.run;
  }
  auto run = std::make_unique<PartEvaluation>(rank_.model, part.microbatch, std::move(data),
                                              rank_.executor, rank_.communicator, rank_.device);
  return *evaluations_.emplace(key, Evaluation{part, std::move(run)}).first->second.run;
}

/// On the batch that each script has passed for the next step, or the first samples of one.
void Service::run_parts(const Request& request, bool with_target, const TakePart& take) {
  const LoadedPlan& loaded = rank_.loaded;
  const int64_t samples = request.samples.value_or(rank_.task.batch.samples);
  std::vector<std::pair<ValidationPart, PartEvaluation*>> parts;
  try {
    for (const ValidationPart& part :
         validation_parts("samples", loaded.plan, loaded.whole(), samples))
      parts.emplace_back(part, &evaluation_of(part, with_target));
  } catch (const InputError& error) {
    throw Refused(error);
  }
  for (const auto& [part, evaluation] : parts)
    take(part, evaluation->executor.run_step(step_of_slot()));
}

Service::Json Service::evaluate(const Request& request) {
  MeanOfSteps mean;
  run_parts(request, /*with_target=*/true,
            [&](const ValidationPart&, const StepResult& result) { mean.add(result); });
  return {{"loss", finite(mean.loss())}};
}

/// The rows of each script's microbatches that the part has samples for: [scripts, rows, …].
at::Tensor Service::rows_of(const ValidationPart& part, const at::Tensor& output) const {
  const Plan& plan = rank_.loaded.plan;
  const int64_t samples = rank_.task.batch.samples, microbatches = samples / plan.microbatch;
  const at::Tensor by_script = output.unflatten(0, {plan.job.global_batch / samples, -1});
  return by_script.narrow(1, 0,
                          by_script.size(1) / microbatches * (part.samples / part.microbatch));
}

Service::Json Service::forward(const Request& request) {
  const Collector collector(rank_.loaded, rank_.communicator);
  std::map<std::string, std::vector<at::Tensor>> rows;
  NamedTensors outputs;
  run_parts(request, /*with_target=*/false,
            [&](const ValidationPart& part, const StepResult& result) {
              outputs = collector.outputs_of_step(result.outputs, part.microbatch);
              for (const auto& [name, tensor] : outputs)
                rows[name].push_back(rows_of(part, tensor));
            });
  for (auto& [name, tensor] : outputs) tensor = at::cat(rows[name], 1).flatten(0, 1);
  return shared(outputs);
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
  for (const auto& [_, evaluation] : evaluations_) evaluation.run->executor.refresh();
  step_ = request.given.at("step");
  rank_.snapshot(step_);
  if (rank_.snapshots != nullptr) rank_.snapshots->finish();
  rank_.communicator.barrier();
  return {{"extra", request.extra}};
}

}  // namespace penstock
