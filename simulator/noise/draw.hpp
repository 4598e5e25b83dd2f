// Draws of the factors by which times vary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/draw.hpp"
#include "pipeline/profile/variation.hpp"

namespace penstock {

/// One of the values, each as likely as the others.
inline double drawn(const Factors& factors, uint64_t key) {
  return factors[static_cast<size_t>((key >> 32) * factors.size() >> 32)];
}

}  // namespace penstock
