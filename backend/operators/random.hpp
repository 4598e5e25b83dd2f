// Random numbers that do not depend on how the model is split: every random operator seeds its
// generator just before it runs.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <mutex>

#include "graph/graph.hpp"

namespace penstock {

struct RandomKey {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t microbatch = 0;  // replica x M + microbatch
  int part = 0;            // of a tensor group
};

/// 64 well-mixed bits (splitmix64 over the numbers). `op` is the index in the whole graph;
/// `by_part`: each part gets others.
uint64_t operator_seed(const RandomKey& key, OperatorId op, bool by_part = false);

/// Seeds the device's default generator and locks it until the operator has run, since the ranks of
/// one process share it.
class SeededGenerator {
 public:
  SeededGenerator(at::Device device, uint64_t seed);

 private:
  std::lock_guard<std::mutex> lock_;
};

}  // namespace penstock
