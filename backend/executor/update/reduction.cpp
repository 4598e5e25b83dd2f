#include "backend/executor/update/reduction.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace penstock {

namespace {

/// Stages that hold each trainable tensor, ascending; for a broadcast one only its owner's.
std::map<int, std::set<int>> holders(const Graph& graph, const Slicing& slicing) {
  std::map<int, std::set<int>> stages;
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    for (const int tensor : slicing.stages[stage].tensors) {
      if (graph.tensors[tensor].requires_grad) stages[tensor].insert(static_cast<int>(stage));
    }
  }
  for (const Slicing::Shared& shared : slicing.shared) {
    if (shared.transmitted) stages[shared.tensor] = {shared.stages.front()};
  }
  return stages;
}

}  // namespace

std::vector<ReductionGroup> reduction_groups(const Graph& graph, const Slicing& slicing,
                                             const std::vector<int>& rank_of_stage, int replicas,
                                             int rank) {
  const int ranks = 1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end());
  std::map<std::pair<int, std::vector<int>>, ReductionGroup> groups;  // by (-last stage, ranks)
  for (const auto& [tensor, stages] : holders(graph, slicing)) {
    std::set<int> members;
    for (const int stage : stages) {
      for (int d = 0; d < replicas; ++d) members.insert(d * ranks + rank_of_stage[stage]);
    }
    if (members.size() < 2 || !members.contains(rank)) continue;
    const std::vector<int> key(members.begin(), members.end());
    ReductionGroup& group = groups[{-*stages.rbegin(), key}];
    group.ranks = key;
    group.tensors.push_back(tensor);
  }
  std::vector<ReductionGroup> ordered;
  ordered.reserve(groups.size());
  for (auto& [key, group] : groups) ordered.push_back(std::move(group));
  return ordered;
}

void reduce_gradients(const std::vector<ReductionGroup>& groups, TensorStore& store,
                      Communicator& communicator) {
  for (const ReductionGroup& group : groups) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(group.tensors.size());
    for (const int tensor : group.tensors) {
      if (!store.gradient(tensor).defined())
        store.accumulate(tensor, at::zeros_like(store.tensor(tensor)));
      gradients.push_back(store.gradient(tensor));
    }
    communicator.all_reduce_each(gradients, group.ranks);
  }
}

}  // namespace penstock
