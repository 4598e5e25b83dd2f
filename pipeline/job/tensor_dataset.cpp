#include "pipeline/job/tensor_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

SampleType type_of(const SafetensorsEntry& entry) {
  return {entry.dtype, {entry.shape.begin() + 1, entry.shape.end()}};
}

/// The samples of a file, of which every tensor has as many.
int64_t samples_of(const SafetensorsFile& file, const std::vector<ExpectedSample>& expected) {
  int64_t samples = 0;
  for (const ExpectedSample& sample : expected) {
    const SafetensorsEntry& entry = file.entry(sample.name);
    if (entry.shape.empty() || entry.shape[0] == 0) {
      throw InputError(file.path() + ": " + sample.name, "holds no samples",
                       "Its first dimension must be the samples.");
    }
    if (samples == 0) samples = entry.shape[0];
    if (entry.shape[0] == samples) continue;
    throw InputError(
        file.path() + ": " + sample.name,
        fmt::format("has {} samples, {} has {}", entry.shape[0], expected.front().name, samples),
        "All tensors must have the same first dimension.");
  }
  return samples;
}

}  // namespace

TensorDataset::TensorDataset(const std::vector<std::string>& paths,
                             const std::vector<ExpectedSample>& expected) {
  for (const std::string& path : paths) {
    Shard shard{SafetensorsFile(path), samples_, 0};
    shard.samples = samples_of(shard.file, expected);
    for (const ExpectedSample& sample : expected) check(shard, sample);
    samples_ += shard.samples;
    shards_.push_back(std::move(shard));
  }
}

/// The first shard against the model, later ones against the first.
void TensorDataset::check(const Shard& shard, const ExpectedSample& expected) const {
  const SampleType found = type_of(shard.file.entry(expected.name));
  const std::string place = shard.file.path() + ": " + expected.name;
  if (shards_.empty()) return check_type(place, found, expected);
  const SampleType wanted = type_of(shards_.front().file.entry(expected.name));
  if (found.dtype == wanted.dtype && found.shape == wanted.shape) return;
  throw InputError(
      place,
      fmt::format("is {}, but {} has {}", found.str(), shards_.front().file.path(), wanted.str()),
      "Save all files with the same dtype and shape, or leave this one out.");
}

SampleType TensorDataset::type(const std::string& name) const {
  return type_of(shards_.front().file.entry(name));
}

std::vector<TensorDataset::Shard>::const_iterator TensorDataset::shard_of(int64_t sample) const {
  return std::prev(std::ranges::upper_bound(shards_, sample, {}, &Shard::first));
}

void TensorDataset::read(const std::string& name, int64_t first,
                         std::span<std::byte> destination) const {
  const int64_t bytes = type(name).bytes();
  for (auto shard = shard_of(first); !destination.empty(); ++shard) {
    const int64_t row = first - shard->first;
    const auto run = std::min<size_t>((shard->samples - row) * bytes, destination.size());
    shard->file.read(shard->file.entry(name), row * bytes, destination.first(run));
    destination = destination.subspan(run);
    first = shard->first + shard->samples;
  }
}

std::string TensorDataset::place(const std::string& name, int64_t sample, int64_t) const {
  const auto shard = shard_of(sample);
  return fmt::format("{}: {} of sample {}", shard->file.path(), name, sample - shard->first);
}

}  // namespace penstock
