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
    const auto [whole, unknown] = whole_.try_emplace({layout.measured->microbatch, state_parts});
    if (unknown) whole->second = context_.tables->whole(*layout.measured, state_parts);
    const auto [fixed, first] = fixed_bytes_.try_emplace(state_parts);
    if (first) fixed->second = fixed_bytes_of_replica(context_.inputs, state_parts);
    return {LayoutBound(layout.branches ? unlinked(costs) : costs),
            LayoutGuess(costs, whole->second, fixed->second), fixed->second};
  }

  const LayoutContext& context_;
  std::map<std::tuple<int64_t, int64_t, double, bool>, Quick> quick_;
  std::map<std::pair<int64_t, int64_t>, StageBytes> whole_;  // by microbatch size and parts
  std::map<int64_t, int64_t> fixed_bytes_;                   // by parts
};

}  // namespace

LayoutSearch::LayoutSearch(const PlanningInputs& inputs, const ModelChain& chain,
                           const PlanRequest& request, int devices)
    : inputs_(inputs),
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
               request.optimizer_state == OptimizerState::sharded,
               std::make_shared<StageTables>(chain, inputs.profile, ways_of(request))} {}

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
  std::vector<SearchSpace> spaces(layouts_.size());
  list_spaces(spaces);
  return spaces;
}

void LayoutSearch::list_spaces(std::span<SearchSpace> into) const {
  QuickBounds bounds(context_);
  // Layouts that differ in schedule and stages per rank alone have this in common.
  struct Common {
    const LayoutGuess* guess;
    double bound_s, cores;
    int64_t bytes, limit_bytes;
  };
  std::map<std::tuple<const LayoutDevices*, const MicrobatchCosts*, bool>, Common> known;
  for (size_t i = 0; i < layouts_.size(); ++i) {
    const PipelineLayout& layout = layouts_[i];
    const bool other = i == 0 || layout.ranks != layouts_[i - 1].ranks ||
                       layout.data_parallel != layouts_[i - 1].data_parallel;
    if (other) known.clear();
    const auto [of, unknown] = known.try_emplace(
        std::tuple(layout.devices.get(), layout.measured, layout.branches), Common{});
    Common& common = of->second;
    if (unknown) {
      const QuickBounds::Quick& quick = bounds.of(layout);
      const MemoryLimit limit = this->limit(i);
      const double cores = ranks_at_full_speed(inputs_.profile, inputs_.cluster,
                                               layout.data_parallel * inputs_.parts);
      common = {.guess = &quick.guess,
                .bound_s = quick.bound.step_s(layout.speeds(), layout.microbatches, cores),
                .cores = cores,
                .bytes = (quick.fixed_bytes + together(limit.reserved_bytes)) / layout.ranks,
                .limit_bytes = limit.max_bytes};
    }
    into[i] = {.bound_s = common.bound_s,
               .guess_s = common.guess->step_s(layout, common.limit_bytes, common.cores),
               .group = schedule_number(layout),
               .bytes = common.bytes,
               .memory_limit = common.limit_bytes,
               .weight = weight(layout),
               .open = [this, i] { return open(i); }};
  }
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
