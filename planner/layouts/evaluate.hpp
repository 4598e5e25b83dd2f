// One split carried through everything that a plan file goes through when it is simulated.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/plan/plan.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/layouts/layout.hpp"
#include "planner/model/known_by_size.hpp"
#include "planner/model/unit_bytes.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {

/// Inputs of evaluations; all of them outlive the search.
struct PlanningInputs {
  const Graph& model;
  const Analysis& analysis;
  const Profile& profile;
  const Cluster* cluster;  // or null
  Network network;
  std::vector<Unit> units;
  /// The tensor groups that a rank is of: how many have parts, and how they hold tensors.
  int parts = 1;
  sharding::Pins sharding = {};
  /// The lives of the model's values (simulator/memory/value_lives.hpp).
  std::shared_ptr<KnownBySize<ValueLives>> lives = std::make_shared<KnownBySize<ValueLives>>();
  /// The choices of its units to recompute (unit_fit.hpp).
  std::shared_ptr<KnownBySize<std::vector<LayerChoices>>> choices =
      std::make_shared<KnownBySize<std::vector<LayerChoices>>>();
  /// The bytes that its units free and keep.
  std::shared_ptr<KnownBySize<std::vector<UnitBytes>>> bytes_of_units =
      std::make_shared<KnownBySize<std::vector<UnitBytes>>>();

  const ValueLives& lives_at(const MicrobatchCosts& measured) const {
    return lives->of(measured.microbatch, [&] { return ValueLives(model, measured); });
  }
  const std::vector<UnitBytes>& unit_bytes_at(const MicrobatchCosts& measured) const {
    return bytes_of_units->of(measured.microbatch, [&] {
      return unit_bytes(lives_at(measured), measured, units_as_stages());
    });
  }
  Slicing units_as_stages() const {
    return slice(model, analysis, interval_stages(model, begins_of(units)),
                 static_cast<int>(units.size()));
  }
};

/// Costs, program and simulation come from the functions that `simulate` calls for a plan file, so
/// the numbers are the same to the last bit. Keeps programs that it has lowered: for one thread.
class Evaluator {
 public:
  explicit Evaluator(const PlanningInputs& inputs) : inputs_(inputs) {}

  struct Evaluated {
    Slicing slicing;
    Costs costs;
    Simulation simulation;
  };
  /// The plan of stages without names, on these ranks; the rest follows from the layout.
  /// `memory_bytes` as in a plan.
  Plan plan(const PipelineLayout& layout, const std::vector<int>& rank_of_stage,
            int64_t memory_bytes) const;
  Slicing slicing(std::vector<int> stage_of_operator, int stages) const;
  /// Costs of a plan with the slicing of its stages, in which it notes what they recompute.
  Costs costs(const Plan& plan, Slicing& slicing);
  /// The memory of each rank. Not for `adaptive`, whose actions depend on the costs. `known`: that
  /// of ranks whose stages have not changed; others have none.
  std::vector<RankMemory> memory(const Plan& plan, const Slicing& slicing, const Costs& costs,
                                 std::vector<std::optional<RankMemory>> known = {});
  /// held_at_peak() of such a rank.
  std::vector<int> held_at_peak(const Plan& plan, const Slicing& slicing, const Costs& costs,
                                int rank, const RankMemory& memory);
  /// The same with times. The limit is for `adaptive`, which fills in plan.generated; absent where
  /// it finds nothing that fits.
  std::optional<Evaluated> evaluate(Plan& plan, Slicing slicing, Costs costs,
                                    const MemoryLimit& limit, const SimulationOptions& options);

  /// How often it added up costs so far, and the actions that making programs for `adaptive` took
  /// (FoundAdaptive::actions).
  struct Work {
    int64_t sums = 0, actions = 0;
  };
  const Work& work() const { return work_; }

  /// The programs that it keeps.
  void forget() { lowered_.clear(); }

 private:
  /// Most splits of a layout have the same flows, so that their programs are equal.
  struct Lowered {
    std::vector<Flow> flows;
    std::vector<std::vector<int>> shared;
    Program program, delayed;  // the latter by delay_receives
  };
  const Lowered& lowered(const Plan& plan, const Slicing& slicing);
  /// What memory follows from.
  const Program& ordered(const Plan& plan, const Slicing& slicing, const Costs& costs);

  const PlanningInputs& inputs_;
  std::vector<Lowered> lowered_;
  Lowered made_;
  Work work_;
};

}  // namespace penstock
