#include "backend/data/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/data/safetensors.hpp"
#include "backend/operators/dtype.hpp"
#include "base/error.hpp"

namespace penstock {

namespace {

bool may_ignore(const Job& job) {
  const bool stored = job.sequence == 0 && !job.random_data;
  return job.loss.kind == Loss::cross_entropy && (stored || job.last_batch == LastBatch::pad);
}

}  // namespace

Data::Data(const Job& job, const Graph& model, bool with_target)
    : data_(open_dataset(job, model, with_target)),
      expected_(expected_samples(job, model, with_target)),
      with_target_(with_target),
      samples_(data_->samples()),
      order_(with_target ? SampleOrder(job, data_->samples()) : SampleOrder(data_->samples())),
      ignorable_(may_ignore(job)) {}

Data::Data(const SharedBatch& batch, const FedPlaces& places, const Job& job, const Graph& model,
           bool with_target)
    : expected_(expected_samples(job, model, with_target)),
      with_target_(with_target),
      samples_(places.samples),
      period_(places.of_script),
      order_(kEndless),
      ignorable_(job.loss.kind == Loss::cross_entropy),
      complete_(batch.complete) {
  data_ = std::make_shared<FedDataset>(batch, expected_, places);
}

Data Data::part(int64_t first, int64_t samples) const {
  Data part = *this;
  part.first_ += first;
  part.samples_ = samples;
  return part;
}

const ExpectedSample& Data::expected(const std::string& name) const {
  const auto found = std::find_if(expected_.begin(), expected_.end(),
                                  [&](const ExpectedSample& e) { return e.name == name; });
  if (found == expected_.end()) throw std::logic_error("no data is expected for " + name);
  return *found;
}

at::Tensor Data::read(const std::string& name, int64_t first, int64_t count) const {
  first += first_;
  const ExpectedSample& wanted = expected(name);
  const SampleType type = data_->type(name);
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  at::Tensor tensor = at::empty(shape, scalar_type(type.dtype));
  read_samples(name, first, count, bytes_of(tensor));
  tensor = tensor.to(scalar_type(wanted.dtype));
  if (wanted.limit) check_range(wanted, tensor, first);
  if (name == kTarget) ignore_padding(tensor, first);
  return tensor;
}

/// Samples that follow each other in the data are read at once.
void Data::read_samples(const std::string& name, int64_t first, int64_t count,
                        std::span<std::byte> destination) const {
  const auto bytes = static_cast<size_t>(data_->type(name).bytes());
  for (int64_t done = 0, run = 1; done < count; done += run, run = 1) {
    const int64_t from = sample(first + done);
    while (done + run < count && sample(first + done + run) == from + run) ++run;
    const auto begin = static_cast<size_t>(done) * bytes;
    data_->read(name, from, destination.subspan(begin, static_cast<size_t>(run) * bytes));
  }
}

void Data::check_range(const ExpectedSample& expected, const at::Tensor& ids, int64_t first) const {
  if (ids.numel() == 0) return;
  at::Tensor wrong = ids.ge(*expected.limit).logical_or(ids.lt(0));
  if (expected.ignored) wrong = wrong.logical_and(ids.ne(*expected.ignored));
  if (!wrong.any().item<bool>()) return;
  const auto where = wrong.flatten().nonzero()[0].item<int64_t>();
  const auto id = ids.flatten()[where].item<int64_t>();
  const int64_t elements = ids.numel() / ids.size(0);
  throw InputError(data_->place(expected.name, sample(first + where / elements), where % elements),
                   fmt::format("{} {} is not in 0..{}{}", expected.name, id, *expected.limit - 1,
                               expected.ignored ? fmt::format(" or {}", *expected.ignored) : ""),
                   "Correct the data (for a .bin, `token_bytes` too), or export the model with a "
                   "larger vocabulary.");
}

void Data::ignore_padding(at::Tensor& target, int64_t first) const {
  for (int64_t i = 0; i < target.size(0); ++i)
    if (!order_.sample(first + i)) target[i].fill_(kIgnoredTarget);
}

int64_t Data::counted_targets(int64_t first, int64_t count) const {
  return read(kTarget, first, count).ne(kIgnoredTarget).sum().item<int64_t>();
}

}  // namespace penstock
