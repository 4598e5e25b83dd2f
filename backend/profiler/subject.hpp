// The model that is measured, or a part of it: loaded once, and sliced in three ways.
#pragma once

#include <vector>

#include "backend/executor/update/optimizer.hpp"
#include "backend/operators/tensor_group.hpp"
#include "backend/profiler/assemble.hpp"
#include "backend/profiler/batch.hpp"
#include "backend/profiler/chain.hpp"
#include "backend/stage/recipe/store.hpp"
#include "pipeline/plan/tensor_parallel.hpp"

namespace penstock::profiler {

struct Subject {
  /// `group`: how the ranks of a tensor group hold the tensors of the whole model; `graph` is then
  /// what each of them runs, and this is the first of them, alone. Job, graph and group outlive it.
  /// Throws InputError for data that does not fit the model, a model exported without weights, an
  /// operator that LibTorch does not have.
  Subject(const Job& job, const Graph& graph, ComputeDevice& device = cpu_device(),
          const GroupTensors* group = nullptr);

  Division division() const { return {graph, analysis, units, groups}; }
  /// Bytes of the trainable parameters, each once.
  int64_t parameter_bytes() const;
  std::set<int> parameters() const;
  /// Bytes of the largest value between units, of a microbatch of `size` samples.
  int64_t largest_crossing(int64_t size) const;
  /// The context of a microbatch that is measured.
  StepContext context(int64_t microbatch, int repetition) const;
  /// Ends a step: clips where the job clips, and steps the optimizer.
  void step_optimizer();

  ComputeDevice& device;
  const Job& job;
  const Graph& graph;
  const TensorGroup alone;  // of one rank where operators are not split
  const InTensorGroup here;
  Analysis analysis;
  std::vector<Unit> units;
  std::vector<OperatorId> groups;
  Batches batches;
  TensorStore store;
  /// The job's optimizer with a learning rate of 0: the work is the same and the parameters stay.
  Optimizer optimizer;
  Chain whole, by_unit, by_group;
};

}  // namespace penstock::profiler
