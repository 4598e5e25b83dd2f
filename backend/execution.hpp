// A worker's run of a plan: trains step by step, and reports to rank 0.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/collector.hpp"
#include "backend/executor.hpp"
#include "backend/rendezvous.hpp"
#include "pipeline/execute_task.hpp"
#include "pipeline/profile.hpp"
#include "pipeline/progress.hpp"
#include "pipeline/worker_protocol.hpp"

namespace penstock {

class Execution {
 public:
  /// Loads the plan. Throws InputError.
  Execution(const WorkerTask& task, const Seat& seat);

  /// What the other ranks must have loaded as well.
  Facts facts() const;
  /// Once the ranks have met.
  void run(Communicator& communicator);
  /// Where this rank is now, for a message.
  WorkerError place() const;

 private:
  void set_hooks(Executor& executor, Collector& collector);
  void step(Executor& executor, Collector& collector, int64_t step);
  void save(Executor& executor, int64_t done);
  void report_timeline();
  void report_summary(int64_t peak_bytes, const std::vector<Probe>& probes);

  WorkerTask worker_;
  ExecuteTask task_;
  std::unique_ptr<LoadedPlan> loaded_;
  Seat seat_;
  Communicator* communicator_ = nullptr;
  std::optional<SharedProgress> progress_;
  SharedProgress::Place place_;
  double clock_offset_s_ = 0;
  std::vector<double> step_s_;
  std::vector<Timeline> timelines_;  // where they are wanted
};

}  // namespace penstock
