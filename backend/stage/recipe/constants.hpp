// Values that depend on nothing but the batch size, computed once for each size.
#pragma once

#include <map>

#include "backend/stage/recipe/recipe.hpp"

namespace penstock {

class Constants {
 public:
  explicit Constants(const Recipe& recipe);
  /// The constants that other operators, outputs or updates of the stage read. Read only.
  const std::map<ValueId, at::Tensor>& at(int64_t batch);
  void clear() { by_batch_.clear(); }
  /// Computes those anew that were asked for, in the same memory.
  void refresh();

 private:
  std::map<ValueId, at::Tensor> compute(int64_t batch) const;
  const Recipe& recipe_;
  std::set<ValueId> wanted_;
  std::map<int64_t, std::map<ValueId, at::Tensor>> by_batch_;
};

}  // namespace penstock
