// Tensors in memory that a script shares with the ranks: global batches on their way to them, or
// results on their way back.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock {

struct SharedTensor {
  std::string name;
  std::string dtype;           // as PyTorch prints it
  std::vector<int64_t> shape;  // samples first, where it has any
  int64_t offset = 0;          // bytes
};

/// Batches in the memory of `descriptor`, that of step k in slot k modulo `slots`: a run that
/// survives may do the last step again, so its batch stays while the next one comes.
struct SharedBatch {
  int descriptor = -1;  // -1: there is none
  int64_t bytes = 0;    // of a slot
  int64_t slots = 1;
  int64_t first = 0, samples = 0;  // places [first, first + samples) of the global batch
  std::vector<SharedTensor> tensors;
  /// Has every rank all samples and tensors, or only those that it reads itself?
  bool complete = true;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SharedTensor, name, dtype, shape, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SharedBatch, descriptor, bytes, slots, first, samples, tensors,
                                   complete)

/// Places tensors one after the other; each begins on a cache line of its own.
class SharedLayout {
 public:
  /// Returns the offset of a tensor of that size.
  int64_t add(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ = (bytes_ + bytes + kLine - 1) / kLine * kLine;
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kLine = 64;
  int64_t bytes_ = 0;
};

}  // namespace penstock
