#include "planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.hpp"
#include "graph/file.hpp"
#include "pipeline/quantity.hpp"
#include "planner/candidates.hpp"
#include "planner/evaluate.hpp"
#include "planner/infeasible.hpp"
#include "planner/model_chain.hpp"
#include "planner/request.hpp"
#include "planner/search.hpp"
#include "simulator/plan_costs.hpp"

namespace penstock {

namespace {

class Planner {
 public:
  Planner(const Profile& profile, const Graph& model, const Cluster* cluster,
          const PlanRequest& request, const Progress& progress)
      : profile_(profile),
        model_(model),
        cluster_(cluster),
        request_(request),
        progress_(progress),
        analysis_(analyse(model)),
        chain_(model, analysis_,
               request.split.empty() ? unit_begins(model, analysis_)
                                     : manual_begins(model, request.split)),
        ranks_(choose_ranks(request, cluster, chain_.units())),
        link_(plan_network(profile, cluster).link()),
        reduce_link_(reduce_link(profile, cluster)),
        limit_(memory_limit(profile, cluster, request, ranks_)),
        candidates_(candidates(profile, request, ranks_)),
        evaluator_(model, analysis_, profile, cluster) {}

  Planned run() {
    check_coupling(model_, request_, planned_.warnings);
    for (const Candidate& candidate : candidates_) add_space(candidate);
    const SearchResult result = search(SplitSearch::Objective::step, limit_.bytes);
    if (!result.best) throw InputError(does_not_fit(misfit()));
    describe(result);
    conclude(*result.best);
    return std::move(planned_);
  }

 private:
  void add_space(const Candidate& candidate) {
    const MicrobatchCosts& measured = *candidate.measured;
    ChainBound time(chain_.costs(profile_, measured, link_, reduce_link_, ranks_), ranks_,
                    static_cast<int>(candidate.microbatches), candidate.in_flight);
    spaces_.push_back({std::move(time),
                       ChainMemory(chain_.bytes(profile_, measured), ranks_, candidate.in_flight)});
  }

  SearchResult search(SplitSearch::Objective objective, int64_t memory_limit) {
    SplitSearch search;
    search.objective = objective;
    search.memory_limit = memory_limit;
    search.simulate = [&](size_t space, const std::vector<int>& first_units) {
      const std::vector<OperatorId> begins = chain_.operators(first_units);
      const Plan plan = evaluator_.plan(candidates_[space], begins);
      const Simulation run = evaluator_.evaluate(plan, begins, {false, false}).simulation;
      return SplitOutcome{run.makespan_s, *std::ranges::max_element(run.peak_memory_bytes)};
    };
    double share = 0;
    search.progress = [&, first_s = -1.0](const SearchState& state) mutable {
      if (!progress_) return;
      if (first_s < 0) first_s = state.bound_s;
      const double way_s = state.best_s - first_s;
      if (way_s > 0) share = std::clamp((state.bound_s - first_s) / way_s, share, 1.0);
      progress_(fmt::format("{} splits simulated, best {}, bound {}", state.simulated,
                            format_seconds(state.best_s), format_seconds(state.bound_s)),
                share);
    };
    return search_splits(spaces_, search);
  }

  Misfit misfit() {
    const SearchResult least = search(SplitSearch::Objective::memory, INT64_MAX);
    return {profile_, chain_, request_, ranks_, limit_, least.best->outcome.peak_bytes};
  }

  void describe(const SearchResult& result) {
    planned_.units = chain_.units();
    planned_.manual = !request_.split.empty();
    planned_.memory_limit_bytes = limit_.bytes == INT64_MAX ? 0 : limit_.bytes;
    planned_.memory_source = limit_.source;
    for (size_t space = 0; space < spaces_.size(); ++space) {
      const Candidate& candidate = candidates_[space];
      Searched& out = planned_.searched.emplace_back();
      out.schedule = candidate.schedule->name;
      out.microbatches = candidate.microbatches;
      out.microbatch = candidate.measured->microbatch;
      out.splits = spaces_[space].splits();
      out.simulated = result.spaces[space].simulated;
      out.best_s = result.spaces[space].best_s;
      out.lower_bound_s = spaces_[space].time.chain();
      out.least_memory_bytes = spaces_[space].memory.chain();
    }
  }

  void conclude(const FoundSplit& best) {
    const std::vector<OperatorId> begins = chain_.operators(best.begins);
    planned_.plan = evaluator_.plan(candidates_[best.space], begins);
    Evaluator::Evaluated winner = evaluator_.evaluate(planned_.plan, begins, {});
    planned_.slicing = std::move(winner.slicing);
    planned_.costs = std::move(winner.costs);
    planned_.simulation = std::move(winner.simulation);
    const double step_s = planned_.simulation.makespan_s;
    planned_.split_bound_s = std::min(spaces_[best.space].time.split(best.begins), step_s);
    planned_.lower_bound_s = step_s;
    for (const Searched& one : planned_.searched)
      planned_.lower_bound_s = std::min(planned_.lower_bound_s, one.lower_bound_s);
    complete(planned_.plan);
  }

  void complete(Plan& plan) const {
    plan.profile = FileRef{profile_.path, sha256_of_file(profile_.path)};
    if (cluster_) plan.cluster = FileRef{cluster_->path, sha256_of_file(cluster_->path)};
    for (const Slicing::Shared& shared : planned_.slicing.shared)
      plan.shared_parameters[model_.tensors[shared.tensor].name] = "replicate";
    const Simulation& run = planned_.simulation;
    plan.prediction =
        Prediction{run.makespan_s, planned_.lower_bound_s, run.bubble, run.peak_memory_bytes};
  }

  const Profile& profile_;
  const Graph& model_;
  const Cluster* cluster_;
  const PlanRequest& request_;
  const Progress& progress_;
  const Analysis analysis_;
  const ModelChain chain_;
  const int ranks_;
  const Link link_, reduce_link_;
  const MemoryLimit limit_;
  const std::vector<Candidate> candidates_;
  Evaluator evaluator_;
  std::vector<SplitSpace> spaces_;
  Planned planned_;
};

}  // namespace

Planned make_plan(const Profile& profile, const Graph& model, const Cluster* cluster,
                  const PlanRequest& request, const Progress& progress) {
  check_model(profile, model);
  return Planner(profile, model, cluster, request, progress).run();
}

}  // namespace penstock
