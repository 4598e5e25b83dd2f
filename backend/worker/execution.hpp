// A worker's run of a plan: trains step by step, and reports to rank 0; or serves a script, which
// feeds the batches.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/communication/rendezvous.hpp"
#include "backend/communication/spare_time.hpp"
#include "backend/device/cuda_module.hpp"
#include "backend/executor/evaluator.hpp"
#include "backend/executor/executor.hpp"
#include "backend/worker/collector.hpp"
#include "backend/worker/faults.hpp"
#include "backend/worker/snapshots.hpp"
#include "launch/execute_task.hpp"
#include "launch/progress.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

class Execution {
 public:
  /// Loads the plan. `cuda`: the module, where the task asks for GPUs. Throws InputError.
  Execution(const WorkerTask& task, SharedStore& store, CudaModule* cuda);

  /// The facts that all ranks must agree on.
  Facts facts() const { return facts_of(task_, *loaded_); }
  /// For the communicator, which then leaves its core to copies of the state while it waits.
  const SpareTime& spare_time() const { return spare_time_; }
  /// Trains, once the ranks have met, or does what a script asks for.
  void run(std::unique_ptr<Communicator> communicator);
  /// The rank of process 0, which hosts the store.
  int rank_with_store() const { return rank_of_process(loaded_->plan).front(); }
  /// The place of this rank in the run, for a message.
  WorkerError place() const;

 private:
  void open_gpu();
  bool serves() const { return task_.batch.descriptor >= 0; }
  void train(Executor& executor, Collector& collector);
  int ends_of_collectives() const;
  ComputeDevice& device() { return gpu_ ? *gpu_ : cpu_device(); }
  void warm_up(Executor& executor);
  void watch_memory(int64_t step);
  void set_hooks(Executor& executor, Collector& collector);
  bool step(Executor& executor, Collector& collector, int64_t step);
  nlohmann::json figures_of_ranks(double step_s, int64_t peak_bytes);
  int64_t peak_bytes(Executor& executor) { return device().peak_bytes() + executor.graph_bytes(); }
  void evaluate(int64_t step);
  void save(Executor& executor, int64_t done, bool last);
  void load_beginning(Executor& executor);
  void snapshot(Executor& executor, int64_t next_step, bool unsaved = false);
  bool is_saved(int64_t next_step) const;
  void wait_for_copy();
  void keep_state(Executor& executor, int64_t next_step, bool last);
  size_t agree_on_median_step();
  void report_timeline(size_t step);
  void report_summary(int64_t peak_bytes, double compute_s);
  void stay_until_all_are_done();

  WorkerTask worker_;
  ExecuteTask task_;
  std::unique_ptr<LoadedPlan> loaded_;
  Seat seat_;
  CudaModule* cuda_;
  SpareTime spare_time_;
  std::optional<SpareTime::Lent> always_lent_;  // where the rank has cores to spare
  std::unique_ptr<ComputeDevice> gpu_;
  std::unique_ptr<NcclApi> nccl_;
  std::unique_ptr<Communicator> communicator_;
  std::optional<Evaluator> evaluator_;  // where the job has a validation set
  Replaying replaying_;
  int64_t allocations_ = 0;  // of the device, at the last look
  std::optional<SharedProgress> progress_;
  Faults faults_;
  std::optional<Snapshots> snapshots_;  // where the run survives
  int64_t begin_ = 0;                   // the first step of this process
  SharedProgress::Place place_;
  double clock_offset_s_ = 0;
  std::vector<double> step_s_, compute_s_;  // by step
  std::vector<Timeline> timelines_;         // where asked for
};

}  // namespace penstock
