#include "tests/backend/stage/tower.hpp"

#include <string>

#include "tests/backend/support.hpp"

namespace penstock::test {

Graph tower(GraphBuilder& b, int layers) {
  ValueId h = b.input("x", DType::float32, {Expression::batch(), kWidth});
  for (int k = 0; k < layers; ++k) {
    h = linear(b, "layer" + std::to_string(k), h, kWidth, kWidth);
    h = b.one("aten::tanh", {{"self", ref(h)}});
  }
  return b.finish({h});
}

Batch tower_batch(const Graph& graph, int microbatches) {
  Batch batch{.size = kRows};
  for (int m = 0; m < microbatches; ++m) {
    batch.inputs.push_back({{graph.inputs[0], numbers("x" + std::to_string(m), {kRows, kWidth})}});
    batch.targets.emplace_back();
  }
  return batch;
}

}  // namespace penstock::test
