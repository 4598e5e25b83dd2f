#include "backend/data/fed_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace penstock {

FedPlaces places_of(const ValidationPart& part, const SharedBatch& batch, const Plan& plan) {
  return {.global_batch = plan.job.global_batch / plan.microbatch * part.microbatch,
          .of_script = batch.samples / plan.microbatch * part.microbatch,
          .first = part.first,
          .samples = part.samples};
}

FedDataset::FedDataset(const SharedBatch& batch, const std::vector<ExpectedSample>& expected,
                       const FedPlaces& places)
    : places_(places),
      samples_(batch.samples),
      script_(batch.first / batch.samples),
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

/// In the script's batch.
int64_t FedDataset::index(int64_t place) const {
  return places_.first + place % places_.global_batch - script_ * places_.of_script;
}

void FedDataset::read(const std::string& name, int64_t first,
                      std::span<std::byte> destination) const {
  const Fed& tensor = fed(name);
  const int64_t bytes = tensor.type.bytes();
  const int64_t count = bytes == 0 ? 0 : static_cast<int64_t>(destination.size()) / bytes;
  int64_t begin = index(first);
  const int64_t end = begin + count - places_.first;
  if (begin < places_.first || end > places_.of_script)
    throw std::logic_error(fmt::format("this rank is not given sample {} of {}", begin, name));
  if (end > places_.samples) begin = 0;
  const int64_t slot = first / places_.global_batch % slots_ * slot_bytes_;
  const auto from = memory_.bytes().subspan(
      static_cast<size_t>(slot + tensor.offset + begin * bytes), destination.size());
  std::ranges::copy(from, destination.begin());
}

std::string FedDataset::place(const std::string& name, int64_t sample, int64_t element) const {
  return fmt::format("{}[{}], element {}", name, index(sample), element);
}

}  // namespace penstock
