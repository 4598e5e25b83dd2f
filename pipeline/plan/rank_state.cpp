#include "pipeline/plan/rank_state.hpp"

#include <map>
#include <set>

#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/sharing.hpp"

namespace penstock {

std::vector<RankStateBytes> state_bytes_of_ranks(const Plan& plan, const Graph& model,
                                                 const Slicing& slicing) {
  const std::vector<int> rank_of_stage = ranks_of_stages(plan);
  const std::set<int> updated = updated_buffers(model);
  std::map<int, int> owners;  // of what is transmitted, by tensor
  for (const Slicing::Shared& shared : slicing.shared) {
    if (shared.transmitted) owners[shared.tensor] = holders_of(shared, rank_of_stage).owner;
  }
  std::vector<RankStateBytes> ranks(static_cast<size_t>(plan.ranks()));
  const int64_t parts = plan.optimizer_state == OptimizerState::sharded ? plan.data_parallel : 1;
  std::set<std::pair<int, int>> seen;  // rank and tensor
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    const int rank = rank_of_stage[stage];
    RankStateBytes& state = ranks[static_cast<size_t>(rank)];
    for (const int index : slicing.stages[stage].tensors) {
      if (!seen.emplace(rank, index).second) continue;
      const StoredTensor& tensor = model.tensors[static_cast<size_t>(index)];
      const auto owner = owners.find(index);
      const bool stepped = owner == owners.end() || owner->second == rank;
      const int64_t gradient = gradient_bytes(plan.job, tensor);
      const int64_t kept = snapshot_bytes(plan.job, tensor, updated.contains(index), false);
      state.held_bytes += tensor.bytes() + gradient;
      state.snapshot_bytes += kept;
      if (!stepped) continue;
      state.held_bytes += (training_bytes(plan.job, tensor) - gradient) / parts;
      state.snapshot_bytes +=
          (snapshot_bytes(plan.job, tensor, updated.contains(index), true) - kept) / parts;
    }
  }
  return ranks;
}

}  // namespace penstock
