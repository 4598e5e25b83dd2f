// One split carried through everything that a plan file goes through when it is simulated.
#pragma once

#include <optional>
#include <vector>

#include "graph/analysis.hpp"
#include "pipeline/plan.hpp"
#include "planner/candidates.hpp"
#include "simulator/plan_costs.hpp"
#include "simulator/simulate.hpp"

namespace penstock {

/// Costs, program and simulation come from the functions that `simulate` calls for a plan file, so
/// the numbers are the same to the last bit.
class Evaluator {
 public:
  /// Everything outlives it; `cluster` may be null.
  Evaluator(const Graph& model, const Analysis& analysis, const Profile& profile,
            const Cluster* cluster)
      : model_(model),
        analysis_(analysis),
        profile_(profile),
        cluster_(cluster),
        network_(plan_network(profile, cluster)) {}

  struct Evaluated {
    Slicing slicing;
    Costs costs;
    Simulation simulation;
  };
  /// The plan of stages that begin with these operators, one per rank.
  Plan plan(const Candidate& candidate, const std::vector<OperatorId>& begins) const;
  Evaluated evaluate(const Plan& plan, const std::vector<OperatorId>& begins,
                     const SimulationOptions& options);

 private:
  const Program& program(const Plan& plan, const Slicing& slicing);

  const Graph& model_;
  const Analysis& analysis_;
  const Profile& profile_;
  const Cluster* cluster_;
  const Network network_;

  /// Most splits of a search have the same flows, so that their programs are equal.
  struct Lowered {
    std::string schedule;
    int64_t microbatches;
    std::vector<Flow> flows;
    std::vector<std::vector<int>> shared;
    Program program;
  };
  std::vector<Lowered> lowered_;
};

}  // namespace penstock
