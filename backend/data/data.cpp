#include "backend/data/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/data/safetensors.hpp"
#include "backend/operators/dtype.hpp"
#include "base/error.hpp"

namespace penstock {

Data::Data(const Job& job, const Graph& model, bool with_target)
    : data_(open_dataset(job, model, with_target)),
      expected_(expected_samples(job, model, with_target)),
      ignorable_(job.loss.kind == Loss::cross_entropy && job.sequence == 0) {}

const ExpectedSample& Data::expected(const std::string& name) const {
  const auto found = std::find_if(expected_.begin(), expected_.end(),
                                  [&](const ExpectedSample& e) { return e.name == name; });
  if (found == expected_.end()) throw std::logic_error("no data is expected for " + name);
  return *found;
}

at::Tensor Data::read(const std::string& name, int64_t first, int64_t count) const {
  const ExpectedSample& wanted = expected(name);
  const SampleType type = data_->type(name);
  std::vector<int64_t> shape{count};
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  at::Tensor tensor = at::empty(shape, scalar_type(type.dtype));
  data_->read(name, first, bytes_of(tensor));
  tensor = tensor.to(scalar_type(wanted.dtype));
  if (wanted.limit) check_range(wanted, tensor, first);
  return tensor;
}

void Data::check_range(const ExpectedSample& expected, const at::Tensor& ids, int64_t first) const {
  if (ids.numel() == 0) return;
  at::Tensor wrong = ids.ge(*expected.limit).logical_or(ids.lt(0));
  if (expected.name == kTarget) wrong = wrong.logical_and(ids.ne(kIgnoredTarget));
  if (!wrong.any().item<bool>()) return;
  const at::Tensor where = wrong.nonzero()[0];
  const auto id = ids.masked_select(wrong)[0].item<int64_t>();
  const int64_t sample = (first + where[0].item<int64_t>()) % data_->samples();
  throw InputError(data_->place(),
                   fmt::format("{} {} in sample {} is not in 0..{}", expected.name, id, sample,
                               *expected.limit - 1),
                   "Export the model with a larger vocabulary, or correct the data.");
}

int64_t Data::counted_targets(int64_t first, int64_t count) const {
  return read(kTarget, first, count).ne(kIgnoredTarget).sum().item<int64_t>();
}

}  // namespace penstock
