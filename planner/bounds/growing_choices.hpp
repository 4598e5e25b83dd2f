// The choices of a rank's units, made step by step: as long as it holds too much at a moment, its
// units free more of what it holds then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/bounds/layer_choices.hpp"

namespace penstock {

class GrowingChoices {
 public:
  /// `units`: their choices, each with the bytes that it frees of one microbatch.
  explicit GrowingChoices(std::vector<LayerChoices> units);

  /// Frees so many bytes more when so many microbatches of each unit are held, in the least time
  /// beyond what was chosen for other moments before. False where nothing more can be freed then.
  bool free_more(const std::vector<int>& held, int64_t bytes, KnownChoices& known);
  /// Of each unit its choice, -1 where it keeps everything.
  const std::vector<int>& choices() const { return choices_; }

 private:
  LayerChoices beyond(size_t unit) const;

  std::vector<LayerChoices> units_;
  std::vector<int> choices_;
  std::vector<int> before_;  // what was chosen for other moments
  std::vector<int> held_;
  int64_t freed_ = 0;  // beyond that, of what is held
};

}  // namespace penstock
