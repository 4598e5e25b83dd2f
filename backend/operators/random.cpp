#include "backend/operators/random.hpp"

#include <ATen/Context.h>

namespace penstock {
namespace {

std::mutex generator_in_use;

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t operator_seed(const RandomKey& key, OperatorId op) {
  uint64_t mixed = splitmix64(key.seed);
  mixed = splitmix64(mixed ^ static_cast<uint64_t>(key.step));
  mixed = splitmix64(mixed ^ static_cast<uint64_t>(key.microbatch));
  return splitmix64(mixed ^ static_cast<uint64_t>(op));
}

SeededGenerator::SeededGenerator(at::Device device, uint64_t seed) : lock_(generator_in_use) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace penstock
