#include "backend/operators/random.hpp"

#include <ATen/Context.h>

#include "base/draw.hpp"

namespace penstock {
namespace {

std::mutex generator_in_use;

}  // namespace

uint64_t operator_seed(const RandomKey& key, OperatorId op, bool by_part) {
  uint64_t seed = mixed(key.seed, 0);
  seed = mixed(seed ^ static_cast<uint64_t>(key.step), 0);
  seed = mixed(seed ^ static_cast<uint64_t>(key.microbatch), 0);
  seed = mixed(seed ^ static_cast<uint64_t>(op), 0);
  return by_part ? mixed(seed ^ static_cast<uint64_t>(key.part), 0) : seed;
}

SeededGenerator::SeededGenerator(at::Device device, uint64_t seed) : lock_(generator_in_use) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace penstock
