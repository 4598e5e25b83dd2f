#include "planner/model/known_lives.hpp"

namespace penstock {

const ValueLives& KnownLives::of(const Graph& model, const MicrobatchCosts& measured) {
  const std::lock_guard lock(mutex_);
  return lives_.try_emplace(measured.microbatch, model, measured).first->second;
}

}  // namespace penstock
