#include "planner/layouts/layout_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "planner/layouts/layout_bound.hpp"
#include "planner/layouts/layout_guess.hpp"
#include "simulator/costs/core_use.hpp"
#include "simulator/costs/stage_terms.hpp"

namespace penstock {

namespace {

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

/// Bounds of layouts and guesses, by all that their costs depend on.
class QuickBounds {
 public:
  explicit QuickBounds(const LayoutContext& context) : context_(context) {}

  struct Quick {
    LayoutBound bound;
    LayoutGuess guess;
    int64_t fixed_bytes;
  };
  /// It stays where it is.
  const Quick& of(const PipelineLayout& layout) {
    const auto key = std::tuple(layout.measured->microbatch, layout.data_parallel,
                                layout.speeds().fastest(), layout.branches);
    const auto known = quick_.find(key);
    return known != quick_.end() ? known->second : quick_.emplace(key, make(layout)).first->second;
  }

 private:
  Quick make(const PipelineLayout& layout) {
    const ChainCosts costs = layout_costs(context_, layout);
    const int64_t state_parts = context_.ways_of(layout).state_parts;
    const auto [kept, unknown] = kept_.try_emplace(layout.measured->microbatch);
    if (unknown) kept->second = context_.tables->kept_by_whole(*layout.measured);
    const auto [fixed, first] = fixed_bytes_.try_emplace(state_parts);
    if (first) fixed->second = fixed_bytes_of_replica(context_.inputs, state_parts);
    return {LayoutBound(layout.branches ? unlinked(costs) : costs),
            LayoutGuess(costs, kept->second, fixed->second), fixed->second};
  }

  const LayoutContext& context_;
  std::map<std::tuple<int64_t, int64_t, double, bool>, Quick> quick_;
  std::map<int64_t, StageBytes> kept_;      // by microbatch size
  std::map<int64_t, int64_t> fixed_bytes_;  // by parts
};

LayoutSearch::LayoutSearch(const PlanningInputs& inputs, const ModelChain& chain,
                           const PlanRequest& request, int devices)
    : inputs_(inputs),
      request_(request),
      branches_(branches_for(inputs, request)),
      layouts_(inputs, request, devices, chain.units(), branches_ != nullptr),
      context_{inputs,
               chain,
               branches_,
               inputs.network.link(),
               reduce_link(inputs.profile, inputs.cluster),
               request.memory_bytes.value_or(0),
               request.objective == PlanObjective::memory,
               ways_of(request),
               request.optimizer_state == OptimizerState::sharded,
               std::make_shared<StageTables>(chain, inputs.profile, inputs.units_as_stages(),
                                             ways_of(request))} {}

MemoryLimit LayoutSearch::limit(const PipelineLayout& layout) const {
  return memory_limit(inputs_.profile, request_, layout, inputs_.parts);
}

std::unique_ptr<LayoutSpace> LayoutSearch::open(const PipelineLayout& layout) const {
  if (layout.refusal()) return nullptr;
  return std::make_unique<LayoutSpace>(context_, layout, limit(layout));
}

void LayoutSearch::require_some() const {
  for (const LayoutList::Block& block : layouts_.blocks()) {
    for (const PipelineLayout& layout : layouts_.of(block))
      if (!layout.refusal()) return;
  }
  layouts_[0].compute();
}

double LayoutSearch::weight(const PipelineLayout& layout) const {
  if (request_.objective != PlanObjective::cost) return 1;
  return static_cast<double>(layout.ranks) * static_cast<double>(layout.data_parallel) *
         inputs_.parts;
}

std::vector<SpaceBlock> LayoutSearch::blocks(const SplitSearch& search,
                                             const Change& change) const {
  const auto bounds = std::make_shared<QuickBounds>(context_);
  std::vector<SpaceBlock> blocks;
  for (const LayoutList::Block& block : layouts_.blocks()) {
    const auto list = [this, bounds, &block, change] { return spaces(block, *bounds, change); };
    blocks.push_back(space_block(list, search));
  }
  return blocks;
}

std::vector<SearchSpace> LayoutSearch::spaces(const LayoutList::Block& block, QuickBounds& bounds,
                                              const Change& change) const {
  // Layouts that differ in schedule and stages per rank alone have this in common.
  struct Common {
    const LayoutGuess* guess;
    double bound_s, cores;
    int64_t bytes, limit_bytes;
  };
  std::map<std::pair<const LayoutDevices*, const MicrobatchCosts*>, Common> known;
  std::vector<SearchSpace> spaces;
  spaces.reserve(block.end - block.begin);
  for (const PipelineLayout& layout : layouts_.of(block)) {
    const size_t number = block.begin + spaces.size();
    const auto [of, unknown] = known.try_emplace({layout.devices.get(), layout.measured});
    Common& common = of->second;
    if (unknown) {
      const QuickBounds::Quick& quick = bounds.of(layout);
      const MemoryLimit limit = this->limit(layout);
      const double cores = ranks_at_full_speed(inputs_.profile, inputs_.cluster,
                                               layout.data_parallel * inputs_.parts) /
                           layout.speeds().fastest();
      common = {.guess = &quick.guess,
                .bound_s = quick.bound.step_s(layout.speeds(), layout.microbatches, cores),
                .cores = cores,
                .bytes = (quick.fixed_bytes + together(limit.reserved_bytes)) / layout.ranks,
                .limit_bytes = limit.max_bytes};
    }
    spaces.push_back({.bound_s = common.bound_s,
                      .guess_s = common.guess->step_s(layout, common.limit_bytes, common.cores),
                      .group = schedule_number(layout),
                      .bytes = common.bytes,
                      .memory_limit = common.limit_bytes,
                      .weight = weight(layout),
                      .open = [this, number] { return open(layouts_[number]); }});
    if (change) change(layout, spaces.back());
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
  const SplitSearch search = split_search(request_, progress);
  return search_splits(blocks(search), search);
}

}  // namespace penstock
