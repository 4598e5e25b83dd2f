// Runs a plan on threads and keeps the results that two runs of one model are compared by.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "pipeline/plan/plan.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::test {

using Tensors = std::map<std::string, at::Tensor>;

struct RunResult {
  std::vector<double> losses;
  Tensors first_gradients;                     // of the first step, by name, from the first holder
  Tensors gradients;                           // of the last step
  Tensors parameters;                          // after it
  std::vector<Tensors> buffers;                // by replica, those that the model updates
  std::vector<Tensors> copies;                 // parameters by rank
  std::vector<std::set<std::string>> stepped;  // and those that it keeps optimizer state of
  Tensors outputs;                             // forwards only
  std::vector<std::string> actions;            // executed on rank 0 in the last step
  std::map<int, Replaying> replaying;          // by rank, where there is a device
};

/// A plan whose stages begin at `begins` (the first ""), one to a rank unless `ranks` says.
Plan plan_of(const std::string& model, const std::string& data,
             const std::vector<std::string>& begins, int64_t microbatches, int64_t microbatch,
             const std::string& schedule = "gpipe", const std::vector<int>& ranks = {});

/// `device`: makes a device for each rank, which then warms up with `graphs`.
RunResult run_plan(const Plan& plan, int64_t steps, bool forward_only = false,
                   Communicators (*make)(int) = make_in_process,
                   const std::function<std::unique_ptr<ComputeDevice>()>& device = {},
                   CudaGraphs graphs = CudaGraphs::always);

/// Largest difference over the tensors: |a - b| / max(|b|, 1e-5 x norm of all b), Euclidean norms.
double difference(const Tensors& a, const Tensors& b);

}  // namespace penstock::test
