#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "graph/pt2/pt2.hpp"
#include "graph/pt2/zip.hpp"

namespace penstock {
namespace {

bool is_contiguous(const StoredTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

/// Bytes of the storage from its start that the tensor reaches.
int64_t reach_bytes(const StoredTensor& tensor) {
  int64_t last = tensor.storage_offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i)
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  return (last + 1) * size_bytes(tensor.dtype);
}

/// Copies dimension `dim` and those below it, row after row, and moves `to` past them.
void gather(const StoredTensor& tensor, size_t dim, const std::byte* from, std::byte*& to) {
  const int64_t element = size_bytes(tensor.dtype);
  if (dim == tensor.sizes.size()) {
    std::memcpy(to, from, static_cast<size_t>(element));
    to += element;
    return;
  }
  for (int64_t i = 0; i < tensor.sizes[dim]; ++i)
    gather(tensor, dim + 1, from + i * tensor.strides[dim] * element, to);
}

}  // namespace

struct WeightFile::Zip {
  penstock::Zip zip;
};

WeightFile::WeightFile(const std::string& path) : zip_(new Zip{penstock::Zip(path)}) {}
WeightFile::~WeightFile() = default;

void WeightFile::read(const StoredTensor& tensor, std::span<std::byte> destination) const {
  if (static_cast<int64_t>(destination.size()) != tensor.bytes())
    throw std::logic_error("WeightFile::read: destination of another size for " + tensor.name);
  if (tensor.elements() == 0) return;
  const penstock::Zip& zip = zip_->zip;
  if (tensor.file.empty())
    throw InputError(zip.path(), fmt::format("has no values for '{}'", tensor.name),
                     "It was exported with --meta; export it with its weights, or give the "
                     "--checkpoint of a run that trains it.");
  const int64_t there = zip.size(tensor.file);
  if (there < reach_bytes(tensor))
    throw InputError(zip.path(),
                     fmt::format("storage '{}' has {} bytes, tensor '{}' needs {}", tensor.file,
                                 there, tensor.name, reach_bytes(tensor)),
                     "Export the model again.");
  const int64_t first = tensor.storage_offset * size_bytes(tensor.dtype);
  if (is_contiguous(tensor)) return zip.read(tensor.file, first, destination);
  std::vector<std::byte> spanned(static_cast<size_t>(reach_bytes(tensor) - first));
  zip.read(tensor.file, first, spanned);
  std::byte* to = destination.data();
  gather(tensor, 0, spanned.data(), to);
}

}  // namespace penstock
