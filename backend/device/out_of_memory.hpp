// The failure after which a smaller size may still run.
#pragma once

#include <stdexcept>

namespace penstock {

/// There is no memory for a tensor.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace penstock
