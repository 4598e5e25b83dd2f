// The splits of one layout of a model: bounds (layout_splits.hpp) and outcomes from the simulator.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/layouts/evaluate.hpp"
#include "planner/layouts/layout_paths.hpp"
#include "planner/layouts/layout_splits.hpp"
#include "planner/layouts/recompute_fit.hpp"
#include "planner/recompute/best_recompute.hpp"
#include "planner/splits/search.hpp"
#include "simulator/costs/memory_limit.hpp"

namespace penstock {

/// The way in which units choose what they recompute: as they were told, or by prices of backwards,
/// as RecomputeFit has them; else what takes least time.
struct RecomputePlacing {
  std::vector<int> choices;
  std::vector<double> prices;
  bool fewer = false;  // without the choices that no rank needs
};

class LayoutSpace : public OpenSpace {
 public:
  /// The layout's schedule runs its shape.
  LayoutSpace(const LayoutContext& context, const PipelineLayout& layout, MemoryLimit limit);

  const SplitSpace& splits() const override { return *splits_; }
  /// Ranks that would not fit recompute, or all of them where memory is the objective:
  /// recompute_fit.hpp. Ranks of several stages do where that lengthens the step least.
  SplitOutcome simulate(const std::vector<int>& begins, const Aim& aim) override;
  bool places_recompute() const override;
  void rest() override {
    evaluator_.forget();
    fit_.forget();
    paths_.reset();
  }

  /// Stages of about equal load; where memory is limited, of about equal memory.
  std::vector<int> proposal(int number) const override;
  std::shared_ptr<const ProgramPaths> paths(const std::vector<int>& begins) const override {
    return layout_paths(context_, layout_, limit_, *splits_, begins, shared_);
  }
  /// The bounds of `adaptive`, whose program is not known: not where ranks recompute.
  bool bounds_lead(const std::vector<int>& begins) const override {
    return !layout_.schedule && keeps_all(*splits_, begins, limit_);
  }

  /// Between the layout's ranks.
  const Network& network() const { return inputs_.network; }

  struct Result {
    Plan plan;
    Evaluator::Evaluated evaluated;
    int simulated = 1;   // for each way to share parameters, and to place recompute
    int64_t effort = 0;  // of looking for the latter
    double slack_s = 0;  // as SplitOutcome has these
    bool more = false;
    std::vector<int> choices = {};
  };
  /// The plan of a split that fits, with its simulation.
  Result plan(const FoundSplit& split, const SimulationOptions& options);
  /// The same with narrower cuts (refine_cuts.hpp), where that makes a step shorter by more than
  /// this share of it.
  std::optional<Result> refined(const Result& found, double min_gain);

 private:
  /// Result of a split by operators' stages; without the stages' names. Where ranks share
  /// parameters the better way. Absent where `adaptive` finds nothing that fits.
  std::optional<Result> run(std::vector<int> stage_of_operator, const SimulationOptions& options,
                            const RecomputePlacing& placing = {});
  std::optional<Result> run_shared(Slicing slicing, bool transmitted,
                                   const SimulationOptions& options,
                                   const RecomputePlacing& placing);
  BestRecompute best_recompute(const std::vector<int>& begins, const Aim& aim);
  std::optional<Result> run_placed(const std::vector<int>& begins, const Aim& aim,
                                   const SimulationOptions& options);
  void leave_out_needless(Result& result, const std::vector<int>& begins, const Aim& aim,
                          const SimulationOptions& options);
  bool fits(const Result& one) const;
  bool better(const Result& one, const Result& other) const;
  std::vector<int> owners(const std::vector<int>& begins) const;

  const LayoutContext& context_;
  const PipelineLayout layout_;
  const PlanningInputs inputs_;  // with the layout's devices
  const MemoryLimit limit_;
  Placement placement_;
  Evaluator evaluator_;
  RecomputeFit fit_;
  std::shared_ptr<const SharedUnits> shared_;  // or null
  std::unique_ptr<const SplitSpace> splits_;
  std::shared_ptr<const ProgramPaths> paths_;  // where ranks recompute, once they were asked for
  std::vector<double> load_;                   // of each unit, per microbatch
  bool lowered_ = false;                       // a split was simulated
};

}  // namespace penstock
