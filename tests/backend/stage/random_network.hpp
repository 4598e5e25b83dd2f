// Random networks of real operators, for properties that hold for any model.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/backend/stage/driver.hpp"
#include "tests/backend/stage/graph_builder.hpp"

namespace penstock::test {

/// In double precision, on two inputs: x [batch, 4, 6] and ids [batch, 4] of 0 … 5. Skips between
/// any two places, parameters that several operators use, values derived from parameters,
/// constants, masks, integers and values without gradient that other stages use, lists of results,
/// sizes in the batch, a buffer that is read and updated, active dropout. Equal for equal seeds.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed);

  Graph graph;
  std::map<int, at::Tensor> tensors;  // by index in graph.tensors
  /// The values differ between microbatches.
  Batch batch(int microbatches);
  /// Ascending begins of one to five stages, where the model may be cut.
  std::vector<OperatorId> begins();
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

 private:
  ValueId any();  // of the hidden values so far; the latest ones are likelier
  ValueId weight(std::vector<int64_t> sizes);
  ValueId one(const std::string& target, const GraphBuilder::Arguments& arguments,
              DType dtype = DType::float64) {
    return builder_.one("aten::" + target, arguments, dtype);
  }
  void add_layer();

  // Each returns a hidden value, [batch, 4, 6].
  ValueId projected();
  ValueId projected_by_derived();
  ValueId normalised();
  ValueId activated();
  ValueId joined();
  ValueId attended();
  ValueId part();
  ValueId convolved();
  ValueId masked();
  ValueId embedded();
  ValueId looked_up();
  ValueId without_gradient();
  ValueId dropped();
  ValueId flattened();
  ValueId shifted_by_constant();
  ValueId with_statistics();

  std::mt19937 random_;
  unsigned seed_;
  GraphBuilder builder_;
  ValueId ids_ = -1;
  std::vector<ValueId> hidden_;
  std::vector<std::pair<std::vector<int64_t>, ValueId>> weights_;
  int buffers_ = 0;
};

}  // namespace penstock::test
