// How long the values of a model live (simulator/memory/value_lives.hpp), found once for each
// microbatch size and shared by all layouts of a search.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// For any number of threads.
class KnownLives {
 public:
  const ValueLives& of(const Graph& model, const MicrobatchCosts& measured);

 private:
  std::mutex mutex_;
  std::map<int64_t, ValueLives> lives_;  // by microbatch size
};

}  // namespace penstock
