#include "backend/executor/update/gradient_sync.hpp"

namespace penstock {

namespace {

/// The stages whose gradients the rank's program reduces, in its order.
std::vector<int> reduced_stages(const Program& lowered, const RankPlace& place) {
  std::vector<int> stages;
  for (const Action& action : lowered.ranks[static_cast<size_t>(place.rank)]) {
    if (action.kind == Kind::reduce_grad) stages.push_back(action.stage);
  }
  return stages;
}

}  // namespace

GradientSync::GradientSync(const Plan& plan, const Slicing& slicing, const Program& lowered,
                           int first_tag, const std::set<int>& trained,
                           const std::vector<GradientBucket>& buckets, TensorStore& store,
                           OptimizerShards& shards, Communicator& communicator)
    : store_(store),
      shards_(shards),
      communicator_(communicator),
      reduction_(buckets, reduced_stages(lowered, plan.place_of(communicator.rank())),
                 plan.all_reduce.overlap, store, communicator),
      broadcasts_(parameter_broadcasts(plan, slicing, communicator.rank(), first_tag)) {
  std::erase_if(broadcasts_, [&](const auto& shared) { return !trained.contains(shared.tensor); });
  for (const ParameterBroadcast& shared : broadcasts_) {
    if (shared.owner != communicator.rank()) received_.insert(shared.tensor);
  }
}

void GradientSync::sum() {
  reduction_.begin_own();
  sum_to_owners(broadcasts_, store_, communicator_);
  reduction_.begin_shared();
  reduction_.finish();
}

void GradientSync::publish() {
  shards_.gather_parameters();
  broadcast_parameters(broadcasts_, store_, communicator_);
}

}  // namespace penstock
