// The splits of one layout of a model: bounds (layout_splits.hpp) and outcomes from the simulator.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/bounds/recompute.hpp"
#include "planner/layouts/evaluate.hpp"
#include "planner/layouts/layout_splits.hpp"
#include "planner/splits/search.hpp"
#include "simulator/costs/memory_limit.hpp"

namespace penstock {

class LayoutSpace : public OpenSpace {
 public:
  /// The layout's schedule runs its shape.
  LayoutSpace(const LayoutContext& context, const PipelineLayout& layout, MemoryLimit limit);

  const SplitSpace& splits() const override { return *splits_; }
  /// Ranks that would not fit recompute, or all of them where memory is the objective:
  /// recompute.hpp.
  SplitOutcome simulate(const std::vector<int>& begins) override;
  void rest() override { evaluator_.forget(); }

  /// Stages of about equal load; where memory is limited, of about equal memory.
  std::vector<int> proposal(int number) const override;

  /// Between the layout's ranks.
  const Network& network() const { return inputs_.network; }

  struct Result {
    Plan plan;
    Evaluator::Evaluated evaluated;
    int looked = 0;     // how often operators were added up
    int simulated = 1;  // once for each way to share parameters
  };
  /// The plan of a split that fits, with its simulation.
  Result plan(const std::vector<int>& begins, const SimulationOptions& options);
  /// The same with narrower cuts (refine_cuts.hpp), where that makes a step shorter by more than
  /// this share of it.
  std::optional<Result> refined(const Result& found, double min_gain);

 private:
  /// Result of a split by operators' stages; without the stages' names. Where ranks share
  /// parameters the better way. Absent where `adaptive` finds nothing that fits.
  std::optional<Result> run(std::vector<int> stage_of_operator, const SimulationOptions& options);
  std::optional<Result> run_shared(Slicing slicing, bool transmitted,
                                   const SimulationOptions& options);
  bool better(const Result& one, const Result& other) const;
  std::vector<int> owners(const std::vector<int>& begins) const;
  RecomputeLevels levels(const Slicing& slicing) const;
  /// What lets every rank fit that can.
  struct Fitted {
    Costs costs;
    std::vector<RankMemory> memory;  // where it was found for these costs
  };
  Fitted fit(Plan& plan, Slicing& slicing, int& looked);
  /// What a rank of these stages, each from its first unit to its end, has to free, and then holds.
  struct FittedRank {
    int64_t freed_bytes = 0;
    RankMemory memory;
  };
  std::vector<std::vector<int>> intervals(const Slicing& slicing) const;
  Fitted fit_layers(Plan& plan, Slicing& slicing, int& looked);
  std::optional<Evaluator::Evaluated> adapt(Plan& plan, const Slicing& slicing,
                                            const SimulationOptions& options);
  std::optional<Evaluator::Evaluated> adapt_layers(Plan& plan, const Slicing& slicing,
                                                   const SimulationOptions& options);

  const LayoutContext& context_;
  const PipelineLayout layout_;
  const PlanningInputs inputs_;  // with the layout's devices
  const MemoryLimit limit_;
  Placement placement_;
  Evaluator evaluator_;
  std::unique_ptr<const SplitSpace> splits_;
  std::vector<double> load_;  // of each unit, per microbatch
  bool lowered_ = false;      // a split was simulated
  /// Of a table of layers, by rank and intervals: neighbours of a split have most ranks in common.
  std::vector<std::map<std::vector<int>, FittedRank>> fitted_;
};

}  // namespace penstock
