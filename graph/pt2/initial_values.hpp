// The first values of parameters whose model was exported without weights: the steps in which their
// modules initialise them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// An operation in place, as PyTorch's of the same name, on a tensor or a part of it.
struct InitialStep {
  enum class Kind {
    fill,       // to first
    normal,     // mean first, standard deviation second
    uniform,    // from first to second
    bernoulli,  // 1 with probability first
    add,        // first
    mul,        // by first
    div,        // by first
    clamp,      // to first and second, infinite where open
    erfinv,
    exp,
    log,
    sqrt,
    cast,  // to dtype
  };
  /// Strided elements of the tensor in row-major order.
  struct Part {
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
  };
  Kind kind = Kind::fill;
  double first = 0, second = 0;
  int64_t draw = -1;  // of normal, uniform, bernoulli; copies of a tensor share their draws
  DType dtype = DType::unknown;
  std::optional<Part> part;
};

struct InitialValues {
  int64_t seed = 0;                // of the export; each draw mixes its number in
  DType dtype = DType::float32;    // before the first step
  std::vector<InitialStep> steps;  // at least one
};

/// The initial values that the file has, by index in Graph::tensors. Throws InputError for a
/// recipe that is malformed or does not fit its tensor.
std::map<int, InitialValues> read_initial_values(const Graph& graph);

/// Throws InputError naming a tensor whose values are neither in the file nor initialised, and why;
/// not for those that are given otherwise, by index in Graph::tensors.
void require_values(const Graph& graph, const std::function<bool(int tensor)>& given = nullptr);

}  // namespace penstock
