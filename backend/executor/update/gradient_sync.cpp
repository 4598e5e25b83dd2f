#include "backend/executor/update/gradient_sync.hpp"

namespace penstock {

GradientSync::GradientSync(const Graph& graph, const Slicing& slicing, const Program& lowered,
                           int replicas, int rank, int first_tag, const std::set<int>& trained)
    : groups_(reduction_groups(graph, slicing, lowered.rank_of_stage, replicas, rank)),
      broadcasts_(parameter_broadcasts(slicing, lowered.rank_of_stage, rank, first_tag)) {
  const auto untrained = [&](int tensor) { return !trained.contains(tensor); };
  for (ReductionGroup& group : groups_) std::erase_if(group.tensors, untrained);
  std::erase_if(broadcasts_, [&](const auto& shared) { return untrained(shared.tensor); });
  for (const ParameterBroadcast& shared : broadcasts_) {
    if (shared.owner != rank) received_.insert(shared.tensor);
  }
}

void GradientSync::sum(TensorStore& store, Communicator& communicator) const {
  sum_to_owners(broadcasts_, store, communicator);
  reduce_gradients(groups_, store, communicator);
}

void GradientSync::broadcast(TensorStore& store, Communicator& communicator) const {
  broadcast_parameters(broadcasts_, store, communicator);
}

}  // namespace penstock
