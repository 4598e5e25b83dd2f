// Conversion between element types of the graph and of LibTorch.
#pragma once

#include <ATen/ATen.h>

#include "base/dtype.hpp"

namespace penstock {

/// Throws std::invalid_argument for a type that the other side does not have.
at::ScalarType scalar_type(DType dtype);
DType dtype_of(at::ScalarType type);

}  // namespace penstock
