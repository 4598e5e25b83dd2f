// Small graphs for tests, built by hand.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/stage/recipe/store.hpp"
#include "graph/graph.hpp"

namespace penstock::test {

class GraphBuilder {
 public:
  /// `shape` may use Expression::batch().
  ValueId input(const std::string& name, DType dtype, std::vector<Expression> shape);
  /// The tensor is a parameter; `buffer` and `constant` take no gradient.
  ValueId parameter(const std::string& name, const at::Tensor& tensor);
  ValueId buffer(const std::string& name, const at::Tensor& tensor);

  using Arguments = std::vector<std::pair<std::string, ArgumentValue>>;
  /// Returns its outputs; `target` is `aten::linear` or `aten::add.Tensor`. Outputs are float32
  /// unless `dtype` says otherwise.
  std::vector<ValueId> op(const std::string& target, const Arguments& arguments, size_t outputs = 1,
                          DType dtype = DType::float32);
  ValueId one(const std::string& target, const Arguments& arguments, DType dtype = DType::float32) {
    return op(target, arguments, 1, dtype)[0];
  }
  void update(ValueId buffer, ValueId value);
  Graph finish(const std::vector<ValueId>& outputs);

  Graph graph;
  std::map<int, at::Tensor> tensors;  // by index in graph.tensors

 private:
  ValueId stored(StoredTensor::Kind kind, const std::string& name, const at::Tensor& tensor);
};

inline ArgumentValue ref(ValueId value) { return TensorRef{value}; }

/// `linear` with a weight [out, in] and a bias, seeded by `name`.
ValueId linear(GraphBuilder& builder, const std::string& name, ValueId input, int64_t in,
               int64_t out, DType dtype = DType::float32);

/// The same numbers for the same name and shape.
at::Tensor numbers(const std::string& name, at::IntArrayRef sizes,
                   at::ScalarType type = at::kFloat);

}  // namespace penstock::test
