// Boxes the export's argument values as LibTorch's dispatcher takes them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// The values that an argument may refer to.
struct BoxingContext {
  const std::vector<at::Tensor>* values = nullptr;  // by value id
  int64_t batch = 1;
  at::Device device = at::kCPU;  // stands for every device that the export names
};

/// `value` as the schema's `type` wants it: enums renumbered, plain numbers for a tensor wrapped.
/// Throws std::invalid_argument if the type cannot take it.
c10::IValue box(const ArgumentValue& value, const c10::Type& type, const BoxingContext& context);

/// Does boxing need tensors or the batch size? Otherwise it can be done once.
bool is_dynamic(const ArgumentValue& value);

}  // namespace penstock
