// Random draws that are functions of what they are for: whoever asks for the same thing gets the
// same draw, in whatever order. Pure functions, the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>

namespace penstock {

/// Mixes a number into a key: the output function of splitmix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014).
constexpr uint64_t mixed(uint64_t key, uint64_t number) {
  uint64_t z = key + (number + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// An integer in [0, limit), each as likely as the others but for limit / 2^64.
constexpr int64_t drawn_below(uint64_t key, int64_t limit) {
  return static_cast<int64_t>(key % static_cast<uint64_t>(limit));
}

/// Uniform in [0, 1).
constexpr double drawn_uniform(uint64_t key) { return static_cast<double>(key >> 11) * 0x1p-53; }

/// A number of mean 0 and variance 1, nearly normal: the sum of four that are uniform in [0, 1),
/// less its mean, over the square root of its variance 1/3.
inline double drawn_normal(uint64_t key) {
  double sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += (static_cast<double>((key >> (16 * i)) & 0xffff) + 0.5) / 65536;
  return (sum - 2) * std::sqrt(3.0);
}

}  // namespace penstock
