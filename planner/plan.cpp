#include "planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "pipeline/plan/sharing.hpp"
#include "planner/alternatives.hpp"
#include "planner/contender.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/layouts/request.hpp"
#include "planner/misfit.hpp"
#include "planner/search_case.hpp"
#include "planner/searched.hpp"
#include "planner/simplest.hpp"
#include "simulator/explain/explain.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock {

namespace {

/// A larger gap to the bound is explained.
constexpr double explained_gap = 0.02;
constexpr const char* undivided =
    "the model is one unit, which is not divided: its ranks can only be replicas; --split cuts "
    "within units";
constexpr const char *simpler_shown = "looking for simpler plans",
                     *misfit_shown = "nothing fits, looking for what would";
/// The share of a step that narrower cuts have to save.
constexpr double min_gain = 1e-3;

/// Shows how far the search has come: by its bound, or by the effort that it may make.
LayoutSearch::Progress shown_by(const Progress& progress) {
  if (!progress) return {};
  return [&progress, first_s = -1.0, share = 0.0](const SearchState& state) mutable {
    if (first_s < 0) first_s = state.bound_s;
    const double way_s = state.best_s - first_s;
    const double by_bound = way_s > 0 ? (state.bound_s - first_s) / way_s : 0;
    share = std::clamp(std::max(by_bound, state.effort), share, 1.0);
    progress(fmt::format("{} splits simulated, best {}, bound {}", state.simulated,
                         format_seconds(state.best_s), format_seconds(state.bound_s)),
             share);
  };
}

LayoutSearch::Progress shown_as(const char* what, const Progress& progress) {
  if (!progress) return {};
  return [what, &progress](const SearchState& state) {
    progress(fmt::format("{}: {} splits simulated", what, state.simulated), 1);
  };
}

class Planner {
 public:
  Planner(const Profile& profile, const Graph& model, const Cluster* cluster,
          const PlanRequest& request, const Progress& progress, const Planned* before)
      : profile_(profile),
        model_(model),
        request_(within_table(completed(request), profile, model, planned_.warnings)),
        progress_(progress),
        cluster_(cluster) {
    check_optimizer_state(request_, profile, model);
    check_coupling(model, analyse(model), request_, planned_.warnings);
    planned_.models =
        rank_models(profile, model, cluster, request_, before ? before->models : RankModels());
    cases_ = search_cases(planned_.models, profile, model, request_);
  }

  Planned run() {
    best_ = search(cases_, request_, shown_by(progress_));
    if (!best_) refuse();
    const SearchResult& result = best_->found;
    planned_.stopped = result.stopped;
    if (best_->chain().units() == 1 && best_->devices > 1 && request_.split.empty())
      planned_.warnings.push_back(undivided);
    finalists_ = finalists(best_->inputs(), best_->request, best_->search, result);
    const Contender& fastest = *std::ranges::min_element(finalists_, {}, &Contender::weighted_s);
    describe(fastest.split.space);
    conclude(best_->search, fastest.split);
    if (simplifies() && !planned_.stopped) simplify(fastest);
    planned_.stopped |= request_.stop && request_.stop();
    planned_.fewer_ranks = on_fewer_ranks(planned_.searched, planned_.plan.all_ranks(),
                                          planned_.simulation.makespan_s);
    if (planned_.stopped) return std::move(planned_);
    explain_gap();
    planned_.alternatives = alternatives(*best_, fastest.split.space, request_.alternatives);
    return std::move(planned_);
  }

 private:
  /// Nothing was found: the groups of most parts have the most memory for the model.
  [[noreturn]] void refuse() const {
    const SearchCase& last = *cases_.back();
    last.search.require_some();
    if (last.found.stopped) throw SearchStopped();
    throw InputError(does_not_fit({last, last.found.complete, profile_, model_, cluster_, request_,
                                   shown_as(misfit_shown, progress_)}));
  }

  void describe(size_t fastest) {
    const SearchResult& result = best_->found;
    planned_.model = best_->model;
    planned_.units = best_->chain().units();
    planned_.devices = best_->devices * best_->model->parts();
    planned_.manual = !request_.split.empty();
    planned_.complete = result.complete;
    planned_.all_seen = result.all_seen;
    planned_.open_bound_s = result.open_bound_s;
    planned_.judged = finalists_.front().verdict ? std::ssize(finalists_) : 0;
    planned_.searched = searched_rows(cases_, *best_, finalists_, fastest);
    if (fastest != result.best->space) {
      planned_.fastest_on_means =
          searched_row(*best_, best_->search, result.best->space, finalists_.front().space);
      planned_.fastest_on_means->expected_s = finalists_.front().expected_s();
    }
    planned_.lower_bound_s = result.best->outcome.step_s;
    for (const auto& each : cases_) add_bounds(*each);
  }

  void add_bounds(const SearchCase& of) {
    planned_.layouts += static_cast<int64_t>(of.search.layouts().size());
    planned_.lower_bound_s = std::min(planned_.lower_bound_s, of.found.untouched_bound_s);
    for (const auto& [i, space] : of.found.spaces) {
      if (space.splits == 0) continue;  // a shape that its schedule does not run
      if (space.bytes > of.search.limit(of.search.layouts()[i]).max_bytes) continue;
      planned_.lower_bound_s = std::min(planned_.lower_bound_s, space.bound_s);
    }
  }

  void conclude(const LayoutSearch& search, const FoundSplit& best) {
    const PipelineLayout layout = search.layouts()[best.space];
    const auto space = search.open(layout);
    LayoutSpace::Result winner = space->plan(best, {});
    const double found_s = winner.evaluated.simulation.makespan_s;
    if (refines()) {
      const double gain = std::max(min_gain, request_.tolerance);
      if (auto better = space->refined(winner, gain)) winner = std::move(*better);
    }
    planned_.memory = search.limit(layout);
    planned_.plan = std::move(winner.plan);
    network_ = space->network();
    planned_.branches = layout.branches;
    put_on_devices();
    planned_.slicing = std::move(winner.evaluated.slicing);
    planned_.costs = std::move(winner.evaluated.costs);
    planned_.simulation = std::move(winner.evaluated.simulation);
    const double step_s = planned_.simulation.makespan_s;
    planned_.refined = step_s < found_s;
    planned_.lower_bound_s = std::min(planned_.lower_bound_s, step_s);
    planned_.split_bound_s = std::min(space->splits().split_s(best.begins), step_s);
    complete(planned_.plan);
    verdict_ = judged(best_->inputs().profile, best_->inputs().cluster, planned_.plan,
                      planned_.slicing, planned_.costs, network_);
    if (verdict_) planned_.plan.prediction->expected_s = verdict_->expected_s;
  }

  bool simplifies() const {
    return request_.tolerance > 0 && request_.split.empty() &&
           request_.objective != PlanObjective::memory;
  }

  /// Takes a simpler plan where there is one that is as fast as far as can be told: first one with
  /// fewer devices or stages or a plainer schedule, by what the profile tells apart, then one that
  /// divides fewer modules, by the tolerance.
  void simplify(Contender fastest) {
    const SimplestSearch simplest(best_->inputs(), best_->chain(), best_->request, best_->devices,
                                  *fastest.search);
    const double weight = fastest.search->weight(fastest.layout());
    fastest.weighted_s = weight * planned_.expected_or_step_s();  // with the narrower cuts
    fastest.split.outcome.step_s = planned_.simulation.makespan_s;
    fastest.slicing = planned_.slicing;
    fastest.verdict = verdict_;
    std::optional<Contender> taken;
    if (fastest.verdict) taken = plainer(simplest, fastest);
    const Contender& near = taken ? *taken : fastest;
    const double max_s = near.mean_s() * (1 + request_.tolerance);
    if (auto next = simplest.run(simplest.complexity(near.layout(), near.slicing), max_s,
                                 shown_as(simpler_shown, progress_))) {
      Contender whole = contender(best_->inputs(), std::move(*next));
      const bool as_good = 1 - near.weighted_s / whole.weighted_s <= request_.tolerance &&
                           !lead(fastest, whole, request_.tolerance).tells();
      if (as_good) taken = std::move(whole);
    }
    if (taken) take(*taken, fastest);
  }

  /// One with fewer devices or stages, or a plainer schedule, that the profile does not tell from
  /// the fastest. It has to be near on mean times, as near as the least sure of the finalists, and
  /// is then judged; where it turns out to be slower a nearer one is looked for.
  std::optional<Contender> plainer(const SimplestSearch& simplest, const Contender& fastest) const {
    Complexity than = complexity_of(fastest.layout());
    std::optional<Contender> taken;
    double share = request_.tolerance;
    for (const Contender& one : finalists_) {
      const Lead of = lead(fastest, one, request_.tolerance);
      share = std::max(share, of.noise);
      const Complexity complexity = complexity_of(one.layout());
      const bool faster = taken && complexity == than && one.weighted_s < taken->weighted_s;
      if (of.tells() || (complexity >= than && !faster)) continue;
      taken = one;
      than = complexity;
    }
    while (auto next = simplest.run_dividing(than, fastest.mean_s() * (1 + share),
                                             shown_as(simpler_shown, progress_))) {
      Contender found = contender(best_->inputs(), std::move(*next));
      const Lead of = lead(fastest, found, request_.tolerance);
      if (!of.tells()) return found;
      if (share <= request_.tolerance) break;
      share = std::max(request_.tolerance, std::min(of.noise, share / 2));
    }
    return taken;
  }

  /// Makes it the plan, instead of the fastest.
  void take(const Contender& simpler, const Contender& fastest) {
    Searched& passed = *std::ranges::find(planned_.searched, true, &Searched::chosen);
    passed.chosen = false;
    passed.best_s = planned_.simulation.makespan_s;
    passed.expected_s = planned_.plan.prediction->expected_s;
    planned_.fastest = passed;
    planned_.noise = lead(fastest, simpler, request_.tolerance).noise;
    conclude(*simpler.search, simpler.split);
    const double weight = simpler.search->weight(simpler.layout());
    planned_.gain = 1 - fastest.weighted_s / (weight * planned_.expected_or_step_s());
    Searched chosen = searched_row(*best_, *simpler.search, simpler.split.space, simpler.space);
    chosen.chosen = true;
    chosen.expected_s = simpler.expected_s();
    auto& means = planned_.fastest_on_means;
    if (means && same_layout(*means, chosen)) means.reset();
    std::erase_if(planned_.searched, [&](const Searched& one) { return same_layout(one, chosen); });
    planned_.searched.insert(planned_.searched.begin(), std::move(chosen));
  }

  bool refines() const {
    return !request_.contiguous && request_.split.empty() && request_.whole_modules.empty() &&
           request_.objective != PlanObjective::memory;
  }

  void explain_gap() {
    if (planned_.gap() <= explained_gap) return;
    if (planned_.simulation.actions > max_explained_actions) return;
    planned_.time =
        time_parts(planned_.plan, planned_.slicing, planned_.costs, planned_.simulation, network_);
  }

  /// The plan's devices, which a search knows as tensor groups.
  void put_on_devices() {
    planned_.cluster.reset();
    if (!cluster_) return;
    Plan& plan = planned_.plan;
    planned_.cluster = *cluster_;
    if (plan.tensor_parallel > 1)
      plan.devices =
          devices_of_ranks(*cluster_, plan.tensor_parallel, plan.devices, plan.all_ranks());
    if (!plan.devices.empty()) planned_.cluster = on_devices(*cluster_, plan.devices);
  }

  void complete(Plan& plan) const {
    const Profile& profile = best_->inputs().profile;
    plan.profile = FileRef{profile.path, sha256_of_file(profile.path)};
    if (cluster_) plan.cluster = FileRef{cluster_->path, sha256_of_file(cluster_->path)};
    for (const Slicing::Shared& shared : planned_.slicing.shared)
      plan.shared_parameters[best_->inputs().model.tensors[shared.tensor].name] =
          shared.transmitted ? way_transmit : way_replicate;
    const Simulation& run = planned_.simulation;
    plan.prediction =
        Prediction{run.makespan_s, 0, planned_.lower_bound_s, run.bubble, run.peak_memory_bytes};
  }

  Planned planned_;
  const Profile& profile_;
  const Graph& model_;
  const PlanRequest request_;
  const Progress& progress_;
  const Cluster* const cluster_;
  std::vector<std::unique_ptr<SearchCase>> cases_;
  SearchCase* best_ = nullptr;        // of these
  std::vector<Contender> finalists_;  // of that
  Network network_;                   // between the plan's ranks
  std::optional<Verdict> verdict_;    // on the plan
};

}  // namespace

Planned make_plan(const Profile& profile, const Graph& model, const Cluster* cluster,
                  const PlanRequest& request, const Progress& progress, const Planned* before) {
  check_model(profile, model);
  return Planner(profile, model, cluster, request, progress, before).run();
}

}  // namespace penstock
