#include "backend/data/fed_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace penstock {

FedDataset::FedDataset(const SharedBatch& batch, const std::vector<ExpectedSample>& expected,
                       int64_t global_batch)
    : first_(batch.first),
      samples_(batch.samples),
      global_batch_(global_batch),
      slot_bytes_(batch.bytes),
      slots_(batch.slots),
      memory_(batch.descriptor, batch.bytes * batch.slots) {
  for (const SharedTensor& tensor : batch.tensors) {
    for (const ExpectedSample& sample : expected) {
      if (sample.name != tensor.name) continue;
      tensors_.emplace(tensor.name, Fed{{sample.dtype, sample.shape}, tensor.offset});
    }
  }
}

const FedDataset::Fed& FedDataset::fed(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::logic_error("this rank is not given " + name);
  return found->second;
}

SampleType FedDataset::type(const std::string& name) const { return fed(name).type; }

void FedDataset::read(const std::string& name, int64_t first,
                      std::span<std::byte> destination) const {
  const Fed& tensor = fed(name);
  const int64_t bytes = tensor.type.bytes(), begin = first % global_batch_ - first_;
  const int64_t count = bytes == 0 ? 0 : static_cast<int64_t>(destination.size()) / bytes;
  if (begin < 0 || begin + count > samples_)
    throw std::logic_error(fmt::format("this rank is not given sample {} of {}", begin, name));
  const int64_t slot = first / global_batch_ % slots_ * slot_bytes_;
  const auto from = memory_.bytes().subspan(
      static_cast<size_t>(slot + tensor.offset + begin * bytes), destination.size());
  std::ranges::copy(from, destination.begin());
}

std::string FedDataset::place(const std::string& name, int64_t sample, int64_t element) const {
  return fmt::format("{}[{}], element {}", name, sample % global_batch_ - first_, element);
}

}  // namespace penstock
