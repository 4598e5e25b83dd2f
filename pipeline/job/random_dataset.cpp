#include "pipeline/job/random_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/draw.hpp"

namespace penstock {

namespace {

/// Apart from other draws with the job's seed.
constexpr uint64_t data_stream = 0x64617461;

/// The elements of samples first, first + 1, …, each drawn by a key of its own.
template <typename Element, typename Draw>
void fill(std::span<std::byte> destination, uint64_t key, int64_t first, int64_t elements,
          Draw draw) {
  for (size_t at = 0; at < destination.size(); ++first) {
    const uint64_t sample = mixed(key, static_cast<uint64_t>(first));
    for (int64_t i = 0; i < elements; ++i, at += sizeof(Element)) {
      const Element element = draw(mixed(sample, static_cast<uint64_t>(i)));
      std::memcpy(&destination[at], &element, sizeof(Element));
    }
  }
}

}  // namespace

RandomDataset::RandomDataset(const Job& job, const std::vector<ExpectedSample>& expected) {
  for (const ExpectedSample& sample : expected) {
    Column column{sample, Kind::id, mixed(mixed(data_stream, job.seed), columns_.size())};
    if (sample.dtype == DType::boolean) column.kind = Kind::truth;
    if (is_floating(sample.dtype)) {
      const bool probability = sample.name == kTarget && job.loss.kind == Loss::bce_with_logits;
      column.kind = probability ? Kind::probability : Kind::normal;
    }
    columns_.push_back(column);
  }
}

const RandomDataset::Column& RandomDataset::column(const std::string& name) const {
  const auto found = std::ranges::find(
      columns_, name,
      [](const Column& column) -> const std::string& { return column.expected.name; });
  if (found == columns_.end()) throw std::logic_error("no data is expected for " + name);
  return *found;
}

SampleType RandomDataset::type(const std::string& name) const {
  const Column& column = this->column(name);
  switch (column.kind) {
    case Kind::id: return {DType::int64, column.expected.shape};
    case Kind::truth: return {DType::boolean, column.expected.shape};
    case Kind::normal:
    case Kind::probability: break;
  }
  return {DType::float32, column.expected.shape};
}

void RandomDataset::read(const std::string& name, int64_t first,
                         std::span<std::byte> destination) const {
  const Column& column = this->column(name);
  const SampleType sample = type(name);
  const int64_t elements = sample.bytes() / size_bytes(sample.dtype);
  const std::optional<int64_t> limit = column.expected.limit;
  switch (column.kind) {
    case Kind::normal: return fill<float>(destination, column.key, first, elements, drawn_normal);
    case Kind::probability:
      return fill<float>(destination, column.key, first, elements, drawn_uniform);
    case Kind::truth:
      return fill<uint8_t>(destination, column.key, first, elements,
                           [](uint64_t key) { return key >> 63; });
    case Kind::id:
      return fill<int64_t>(destination, column.key, first, elements, [&](uint64_t key) -> int64_t {
        return limit ? drawn_below(key, *limit) : 1;
      });
  }
}

std::string RandomDataset::place(const std::string& name, int64_t, int64_t) const {
  return "made-up " + name;
}

}  // namespace penstock
