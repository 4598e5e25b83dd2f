#include "backend/worker/execution.hpp"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "backend/communication/gather.hpp"
#include "backend/communication/nccl/communicator.hpp"
#include "backend/communication/nccl/shared_memory.hpp"
#include "backend/communication/watched.hpp"
#include "backend/device/cuda_load.hpp"
#include "backend/worker/checkpoint.hpp"
#include "backend/worker/events.hpp"
#include "backend/worker/service.hpp"
#include "backend/worker/state.hpp"
#include "base/error.hpp"
#include "launch/own_cores.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/plan/gradient_buckets.hpp"

namespace penstock {

using Json = nlohmann::json;

Execution::Execution(const WorkerTask& task, SharedStore& store, CudaModule* cuda)
    : worker_(task),
      task_(parse_execute_task(task.arguments)),
      loaded_(load_plan(task_)),
      seat_(seat_of_rank(task, store)),
      cuda_(cuda),
      faults_(task.rank),
      begin_(task.next_step >= 0 ? task.next_step : task_.first_step) {
  if (task.progress >= 0) progress_.emplace(task.progress);
  if (task.slots.empty()) return;
  snapshots_.emplace(task.slots, *progress_, spare_time_);
  snapshots_->while_copying = [this](int64_t step) { faults_.at(step, Faults::copy); };
  snapshots_->on_complete = [this](int64_t next_step) {
    if (worker_.copied || is_saved(next_step)) emit({{"event", "snapshot"}, {"step", next_step}});
  };
}

/// Tensors of the GPU then move over NCCL, those of the host still over Gloo.
void Execution::open_gpu() {
  gpu_ = cuda_->open(cuda_device_of(cuda_->look(), worker_));
  nccl_ = cuda_->nccl();
  const Plan& plan = loaded_->plan;
  const std::vector<LaneKey> lanes =
      lanes_of(loaded_->program, static_cast<int>(plan.data_parallel), loaded_->slicing,
               static_cast<int>(plan.tensor_parallel));
  if (worker_.ranks_per_device > 1 && worker_.one_machine) {
    check_shared_memory(ends_of(lanes) + ends_of_collectives(), free_shared_memory());
    communicator_->barrier();  // none takes memory before all have checked
  }
  NcclOptions options;
  options.device = gpu_->where();
  options.deadline_s = worker_.start_timeout_s;
  options.on_stall = [this](const std::string& text) {
    emit({{"event", "warning"}, {"message", fmt::format("rank {}: {}", worker_.rank, text)}});
  };
  options.max_ctas = ctas_of(lanes);
  if (worker_.ranks_per_device > 1) options.max_ctas = options.group_ctas = 1;
  communicator_ = make_nccl(*nccl_, seat_.store, std::move(communicator_), lanes, options);
}

/// The ends of the communicators of tensor groups, and of those that sum gradients, over all ranks.
int Execution::ends_of_collectives() const {
  size_t ends = loaded_->group ? static_cast<size_t>(worker_.world_size) : 0;
  for (int rank = 0; rank < worker_.world_size; ++rank) {
    std::set<std::vector<int>> groups;
    for (const GradientBucket& bucket :
         gradient_buckets(loaded_->plan, loaded_->graph, loaded_->slicing,
                          trainable_tensors(loaded_->graph), rank)) {
      groups.insert(bucket.ranks);
    }
    ends += groups.size();
  }
  return static_cast<int>(ends);
}

WorkerError Execution::place() const {
  WorkerError error;
  error.rank = worker_.rank;
  error.step = place_.step;
  if (place_.position >= 0) {
    const int rank = loaded_->plan.place_of(worker_.rank).rank;
    error.action = to_string(loaded_->program.ranks[rank][place_.position]);
  }
  return error;
}

void Execution::set_hooks(Executor& executor, Collector& collector) {
  executor.on_agreement = [this] {
    if (snapshots_) snapshots_->finish();  // all have their copy of this step's beginning
    if (worker_.copied) wait_for_copy();
    return progress_ && progress_->asked_to_stop();
  };
  executor.on_action = [this](int64_t step, int position) {
    place_ = {step, position};
    if (progress_) {
      progress_->set(place_);
      progress_->set(Activity{Activity::Kind::acts});
    }
    faults_.at(step, position);
  };
  executor.on_end = [this] {
    if (progress_) progress_->set(Activity{Activity::Kind::outside});
  };
  if (task_.dump_gradients.empty()) return;
  executor.on_gradients = [&](int64_t step) {
    if (step != task_.first_step) return;
    executor.gather_gradients();
    collector.write_gradients(executor.store(), task_.dump_gradients);
  };
}

void Execution::run(std::unique_ptr<Communicator> communicator) {
  communicator_ = std::move(communicator);
  if (cuda_ != nullptr || own_cores().size() > 1) always_lent_.emplace(spare_time_);
  if (progress_ && cuda_ == nullptr)  // a GPU's host is ahead of it
    communicator_ =
        make_watched(std::move(communicator_), *progress_, spare_time_, Faults::in_wait);
  if (cuda_ != nullptr) open_gpu();
  clock_offset_s_ = clock_offset_s(seat_);
  const Data data = serves() ? fed_data(task_.batch, *loaded_)
                             : Data(loaded_->plan.job, loaded_->whole(), !task_.forward_only);
  const MatchedWeights* weights = loaded_->weights ? &*loaded_->weights : nullptr;
  const Model model{loaded_->plan,
                    loaded_->graph,
                    loaded_->analysis,
                    loaded_->slicing,
                    loaded_->program,
                    weights,
                    loaded_->group ? &*loaded_->group : nullptr};
  Executor executor(model, data, *communicator_, /*receive_depth=*/2, device());
  if (loaded_->plan.job.validation && !task_.forward_only && !serves())
    evaluator_.emplace(model, executor, *communicator_, device());
  Collector collector(*loaded_, *communicator_);
  set_hooks(executor, collector);
  if (!task_.output.empty()) collector.open_outputs(task_.output, task_.steps);
  load_beginning(executor);
  communicator_->barrier();
  if (gpu_) warm_up(executor);
  communicator_->barrier();
  emit({{"event", "ready"}});
  device().reset_peak();
  if (!serves()) return train(executor, collector);
  Service service({worker_, task_, *loaded_, model, executor, *communicator_, device(), seat_,
                   begin_, snapshots_ ? &*snapshots_ : nullptr,
                   [&](int64_t next_step) { snapshot(executor, next_step); }});
  if (service.run()) stay_until_all_are_done();
}

/// Waits until another process has copied the snapshot of this step's beginning.
void Execution::wait_for_copy() {
  progress_->set(Activity{Activity::Kind::waits});
  while (progress_->copied() < place_.step)
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // far less than the copy takes
  progress_->set(Activity{Activity::Kind::acts});
}

void Execution::train(Executor& executor, Collector& collector) {
  const int64_t end = task_.first_step + task_.steps;
  for (int64_t i = begin_; i < end; ++i) {
    const bool stop = step(executor, collector, i);
    watch_memory(i);
    if (stop) emit({{"event", "stopped"}, {"step", i}});
    if (!stop) evaluate(i);
    keep_state(executor, i + 1, stop || i + 1 == end);
    if (!stop) continue;
    evaluate(i);  // after the checkpoint: who stops the run may not wait
    break;
  }
  const int64_t peak = peak_bytes(executor);
  executor.forget_graphs();
  collector.close_outputs();
  communicator_->barrier();
  const size_t median = agree_on_median_step();
  if (task_.timeline) report_timeline(median);
  report_summary(peak, compute_s_.at(median));
}

/// The state that this process begins with, and the first snapshot of it.
void Execution::load_beginning(Executor& executor) {
  if (worker_.next_step >= 0)
    return load_state({snapshots_->file(worker_.next_step)}, "snapshot", *loaded_, executor);
  if (!task_.resume.empty())
    load_checkpoint(task_.resume, *loaded_, executor, /*optimizer=*/!task_.forward_only);
  if (!snapshots_) return;
  snapshot(executor, begin_);
  snapshots_->finish();
  snapshots_->reserve(executor.missing_state_bytes());
}

/// Begins one, of the state before that step.
void Execution::snapshot(Executor& executor, int64_t next_step, bool unsaved) {
  if (!snapshots_) return;
  const RankState state = rank_state(*loaded_, executor);
  snapshots_->begin(next_step, state.buffers, state.trained, unsaved);
}

/// Is there to be a checkpoint of the state before that step, whether the run ends there or not?
bool Execution::is_saved(int64_t next_step) const {
  return !task_.save.empty() && task_.save_every > 0 && next_step % task_.save_every == 0;
}

/// After a step, in a checkpoint or a snapshot or both. Of a run with snapshots it is the process
/// that started this one which writes checkpoints, while steps go on; all replicas have the same,
/// but where ranks have parts of a tensor or of its state, which they then gather themselves.
void Execution::keep_state(Executor& executor, int64_t next_step, bool last) {
  const bool saves = is_saved(next_step) || (last && !task_.save.empty());
  const bool from_ranks = !snapshots_ || has_parts(loaded_->plan);
  if (saves && from_ranks) save(executor, next_step, last);
  if (!snapshots_) return;
  const bool unsaved = saves && !from_ranks;
  if (!last || unsaved)
    snapshot(executor, next_step, unsaved && loaded_->plan.place_of(worker_.rank).replica == 0);
  if (last) snapshots_->finish();
}

void Execution::warm_up(Executor& executor) {
  if (evaluator_) evaluator_->warm_up();
  replaying_ = executor.warm_up(task_.first_step, task_.cuda_graphs);
  if (task_.cuda_graphs != CudaGraphs::always || replaying_.on) return;
  throw InputError("--cuda-graphs on",
                   "rank " + std::to_string(worker_.rank) + " has none: " + replaying_.why_not,
                   "Leave it out: steps then run without them where they have to.");
}

/// Is it the last, because some rank was asked to stop?
bool Execution::step(Executor& executor, Collector& collector, int64_t step) {
  StepResult result = executor.run_step(step);
  step_s_.push_back(result.step_s);
  compute_s_.push_back(compute_s(result.timeline, communicator_->rank()));
  if (task_.timeline) timelines_.push_back(std::move(result.timeline));
  collector.add_outputs(result.outputs);
  Json event{{"event", "step"}, {"step", step}, {"step_s", result.step_s}};
  if (task_.metrics) event.update(figures_of_ranks(result.step_s, peak_bytes(executor)));
  if (worker_.rank != 0) return result.stop;
  if (!task_.forward_only) {
    event["loss"] = result.loss;
    event["microbatch_losses"] = result.microbatch_losses;
  }
  if (result.gradient_norm) event["gradient_norm"] = *result.gradient_norm;
  emit(event);
  return result.stop;
}

/// The share of all ranks' time in this step that is not compute, and each one's peak memory so
/// far; all of them call it.
Json Execution::figures_of_ranks(double step_s, int64_t peak_bytes) {
  const auto ranks = static_cast<size_t>(worker_.world_size);
  std::vector<double> figures(ranks + 2, 0);
  figures[static_cast<size_t>(worker_.rank)] = static_cast<double>(peak_bytes);
  figures[ranks] = compute_s_.back();
  figures[ranks + 1] = step_s;
  sum_over_all(*communicator_, figures);
  const std::vector<int64_t> peaks(figures.begin(), figures.end() - 2);
  return {{"bubble", 1 - figures[ranks] / figures[ranks + 1]}, {"peak_memory_bytes", peaks}};
}

/// On the validation set, where that is due after the step.
void Execution::evaluate(int64_t step) {
  if (!evaluator_) return;
  const int64_t every = loaded_->plan.job.validation->every;
  const bool last = step + 1 == task_.first_step + task_.steps;
  if (!last && (every == 0 || step_number(step) % every != 0)) return;
  const double loss = evaluator_->run();
  if (worker_.rank == 0) emit({{"event", "validation"}, {"step", step}, {"loss", loss}});
}

/// A GPU's allocator should not ask for more after two steps: the first makes the optimizer's
/// state, from blocks that the second asks for.
void Execution::watch_memory(int64_t step) {
  const int64_t before = std::exchange(allocations_, device().allocations());
  if (step <= begin_ + 1 || allocations_ == before) return;
  emit({{"event", "warning"},
        {"message",
         "rank " + std::to_string(worker_.rank) + ", step " + std::to_string(step_number(step)) +
             ": the GPU's memory had to be extended " + std::to_string(allocations_ - before) +
             " times, which stops it each time"}});
}

/// Saves a checkpoint after `done` steps. The run goes on without one that cannot be written,
/// unless it is the last.
void Execution::save(Executor& executor, int64_t done, bool last) {
  try {
    save_checkpoint({task_.save, done, task_.keep, nullptr}, *loaded_, executor, seat_);
    emit({{"event", "saved"}, {"path", checkpoint_path(task_.save, done).string()}});
  } catch (const InputError& error) {
    if (last) throw;
    if (worker_.rank == 0) emit({{"event", "warning"}, {"message", error.what()}});
  }
}

}  // namespace penstock
