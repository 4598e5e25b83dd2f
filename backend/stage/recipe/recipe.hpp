// The fixed part of every microbatch of a stage, computed once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "backend/stage/recipe/roles.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/sharding/layout.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

struct Recipe {
  /// Throws as `assign_roles` does. `named`: the stage that messages name; -1: this one.
  Recipe(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
         TensorStore& store, const LossSpec& loss, int named = -1);

  const Graph& graph;
  const StageSlice& slice;
  TensorStore& store;
  const int stage;  // in messages
  const LossSpec loss;
  StageRoles roles;
  std::map<ValueId, bool> sent, received;  // does it carry a gradient?
  std::vector<ValueId> stored;             // values of stored tensors that it reads or updates
  /// By operator of `roles.operators`: the values that nothing reads after it.
  std::vector<std::vector<ValueId>> released;
  bool has_loss = false;
  /// The split in which a part has the first output, of which it computes a loss of its classes.
  std::optional<sharding::Layout> classes;

  const Value& value(ValueId id) const { return graph.values[static_cast<size_t>(id)]; }
  ValueRole role(ValueId id) const { return roles.of[static_cast<size_t>(id)]; }
  /// The value of the model's first output. Throws InputError if it is not a tensor.
  ValueId first_output() const;

 private:
  std::set<ValueId> needed_at_end() const;
  void plan_releases();
};

}  // namespace penstock
