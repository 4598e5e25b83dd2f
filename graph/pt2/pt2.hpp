// Reading `.pt2` files as torch.export.save of torch 2.9 to 2.15 writes them (schema 8.14 to 8.20),
// without LibTorch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// Reads the operator graph and the description of every tensor; no weight bytes.
/// Throws InputError naming the file and what is wrong in it (not a zip, truncated, another schema
/// version, an operator kind or argument that Penstock does not take).
Graph read_pt2(const std::string& path);

/// The weights of a `.pt2`, read tensor by tensor.
class WeightFile {
 public:
  explicit WeightFile(const std::string& path);
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;
  /// Copies the tensor's elements, contiguous in row-major order, to `destination`
  /// (tensor.bytes() long). Beside that it holds nothing for a contiguous tensor, and for another
  /// one the part of the storage that it spans. Throws InputError if the storage is shorter than
  /// the tensor needs.
  void read(const StoredTensor& tensor, std::span<std::byte> destination) const;

 private:
  struct Zip;
  std::unique_ptr<Zip> zip_;
};

}  // namespace penstock
