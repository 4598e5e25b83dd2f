#include "planner/layouts/layout_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "planner/layouts/layout_bound.hpp"
#include "planner/layouts/layout_guess.hpp"
#include "planner/splits/in_parallel.hpp"
#include "simulator/costs/core_use.hpp"
#include "simulator/costs/stage_terms.hpp"

namespace penstock {

namespace {

/// Makes the context's tables, once for all layouts, and what each size of microbatches keeps once
/// for all tables.
void make_tables(LayoutContext& context, const std::vector<PipelineLayout>& layouts, int threads) {
  std::map<int64_t, std::vector<int64_t>> parts_of;  // by size
  for (const PipelineLayout& layout : layouts)
    parts_of[layout.measured->microbatch].push_back(context.ways_of(layout).state_parts);
  using Tables = std::vector<std::pair<int64_t, std::shared_ptr<StageTable>>>;
  std::vector<std::pair<int64_t, Tables>> made;
  for (auto& [microbatch, parts] : parts_of) {
    std::ranges::sort(parts);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    Tables& tables = made.emplace_back(microbatch, Tables()).second;
    for (const int64_t count : parts) tables.emplace_back(count, nullptr);
  }
  in_parallel(made.size(), threads, [&](size_t i) {
    const Profile& profile = context.inputs.profile;
    StageTable kept(context.chain.units());
    context.chain.add_kept(profile, *profile.at(made[i].first), kept);
    for (auto& [parts, table] : made[i].second) {
      SharingWays ways = context.ways;
      ways.state_parts = parts;
      table = std::make_shared<StageTable>(kept);
      context.chain.add_tensors(profile.job, ways, *table);
    }
  });
  for (const auto& [microbatch, tables] : made)
    for (const auto& [parts, table] : tables) context.tables[{microbatch, parts}] = table;
}

/// All ranks of a replica hold at least so much together: tensors, gradients, their part of the
/// state.
int64_t fixed_bytes_of_replica(const PlanningInputs& inputs, int64_t state_parts) {
  const Job& job = inputs.profile.job;
  int64_t bytes = 0;
  for (const StoredTensor& tensor : inputs.model.tensors)
    bytes += fixed_bytes(job, tensor, /*stepped=*/false) +
             job.snapshots * snapshot_bytes(job, tensor, /*updated=*/false, /*stepped=*/false) +
             (1 + job.snapshots) * state_part_bytes(job, tensor, state_parts);
  return bytes;
}

/// Its place in the schedule table; behind it for `adaptive`.
size_t schedule_number(const PipelineLayout& layout) {
  const auto& all = schedules();
  return layout.schedule ? static_cast<size_t>(layout.schedule - &*all.begin()) : all.size();
}

SearchObjective objective_of(const PlanRequest& request) {
  return request.objective == PlanObjective::memory ? SearchObjective::memory
                                                    : SearchObjective::step;
}

SharingWays ways_of(const PlanRequest& request) {
  return {.replicate = request.sharing != PlanSharing::transmit,
          .transmit = request.sharing != PlanSharing::replicate};
}

/// Not where the split is given or has to be contiguous; nor for the least memory, of which their
/// bounds know nothing.
bool searches_branches(const PlanRequest& request) {
  return request.split.empty() && !request.contiguous && request.whole_modules.empty() &&
         request.objective != PlanObjective::memory;
}

/// Null where there are none, or none are searched.
std::shared_ptr<const Branches> branches_for(const PlanningInputs& inputs,
                                             const PlanRequest& request) {
  if (!searches_branches(request)) return nullptr;
  auto found = std::make_shared<const Branches>(inputs.model, inputs.analysis, inputs.profile);
  return found->any() ? found : nullptr;
}

/// As of units that nothing is sure to cross between.
ChainCosts unlinked(ChainCosts costs) {
  costs.linked.assign(static_cast<size_t>(std::max(0, costs.units() - 1)), 0);
  return costs;
}

int64_t together(const std::vector<int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

}  // namespace

LayoutSearch::LayoutSearch(const PlanningInputs& inputs, const ModelChain& chain,
                           const PlanRequest& request, int devices)
    : inputs_(inputs),
      chain_(chain),
      request_(request),
      branches_(branches_for(inputs, request)),
      layouts_(penstock::layouts(inputs.profile, request, inputs.cluster, devices, chain.units(),
                                 branches_ != nullptr)),
      context_{inputs,
               chain,
               branches_,
               inputs.network.link(),
               reduce_link(inputs.profile, inputs.cluster),
               request.memory_bytes.value_or(0),
               request.objective == PlanObjective::memory,
               ways_of(request),
               request.optimizer_state == OptimizerState::sharded} {
  make_tables(context_, layouts_, request.threads);
}

MemoryLimit LayoutSearch::limit(size_t layout) const {
  return memory_limit(inputs_.profile, request_, layouts_[layout], inputs_.parts);
}

std::unique_ptr<LayoutSpace> LayoutSearch::open(size_t layout) const {
  if (layouts_[layout].refusal()) return nullptr;
  return std::make_unique<LayoutSpace>(context_, layouts_[layout], limit(layout));
}

void LayoutSearch::require_some() const {
  for (const PipelineLayout& layout : layouts_) {
    if (!layout.refusal()) return;
  }
  layouts_.front().compute();
}

double LayoutSearch::weight(const PipelineLayout& layout) const {
  if (request_.objective != PlanObjective::cost) return 1;
  return static_cast<double>(layout.ranks) * static_cast<double>(layout.data_parallel) *
         inputs_.parts;
}

std::vector<SearchSpace> LayoutSearch::spaces() const {
  std::vector<SearchSpace> spaces;
  spaces.reserve(layouts_.size());
  struct Quick {
    LayoutBound bound;
    LayoutGuess guess;
    int64_t fixed_bytes;
    std::map<std::tuple<int, double, double>, double> bounds_s = {};  // by ranks and their speeds
  };
  std::map<std::tuple<int64_t, int64_t, double, bool>, Quick> quick;  // by all that they depend on
  for (size_t i = 0; i < layouts_.size(); ++i) {
    const PipelineLayout& layout = layouts_[i];
    const auto key = std::tuple(layout.measured->microbatch, layout.data_parallel,
                                layout.speeds().fastest(), layout.branches);
    if (!quick.contains(key)) {
      const ChainCosts costs = layout_costs(context_, layout);
      const StageBytes& all = context_.bytes(layout)->at(0, costs.units());
      const int64_t fixed_bytes =
          fixed_bytes_of_replica(inputs_, context_.ways_of(layout).state_parts);
      quick.emplace(key, Quick{LayoutBound(layout.branches ? unlinked(costs) : costs),
                               LayoutGuess(costs, all, fixed_bytes), fixed_bytes});
    }
    Quick& of = quick.at(key);
    const MemoryLimit limit = this->limit(i);
    const double cores =
        ranks_at_full_speed(inputs_.profile, inputs_.cluster, layout.data_parallel * inputs_.parts);
    const RankSpeeds& speeds = layout.speeds();
    const auto [bound_s, unknown] =
        of.bounds_s.try_emplace(std::tuple(speeds.ranks(), speeds.slowest(), speeds.together()));
    if (unknown) bound_s->second = of.bound.step_s(speeds, layout.microbatches, cores);
    spaces.push_back({.bound_s = bound_s->second,
                      .guess_s = of.guess.step_s(layout, limit.max_bytes, cores),
                      .group = schedule_number(layout),
                      .bytes = (of.fixed_bytes + together(limit.reserved_bytes)) / layout.ranks,
                      .memory_limit = limit.max_bytes,
                      .weight = weight(layout),
                      .open = [this, i] { return open(i); }});
  }
  return spaces;
}

SplitSearch split_search(const PlanRequest& request, const LayoutSearch::Progress& progress) {
  return {.objective = objective_of(request),
          .effort = request.effort,
          .threads = request.threads,
          .progress = progress,
          .stop = request.stop};
}

SearchResult LayoutSearch::run(const Progress& progress) const {
  return search_splits(spaces(), split_search(request_, progress));
}

}  // namespace penstock
