#include "pipeline/job/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "graph/operators/facts.hpp"
#include "pipeline/job/text_dataset.hpp"

namespace penstock {

int64_t SampleType::bytes() const {
  int64_t bytes = size_bytes(dtype);
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

namespace {

std::string describe(DType dtype, const std::vector<int64_t>& shape) {
  std::string text = fmt::format("{} [samples", name(dtype));
  for (const int64_t size : shape) text += fmt::format(", {}", size);
  return text + "]";
}

/// Tensors of one `.safetensors` file.
class TensorDataset : public Dataset {
 public:
  explicit TensorDataset(const std::string& path) : file_(path) {}

  void check_names(const std::vector<ExpectedSample>& expected) {
    for (const ExpectedSample& sample : expected) {
      const SafetensorsEntry& entry = file_.entry(sample.name);
      if (entry.shape.empty() || entry.shape[0] == 0) {
        throw InputError(file_.path() + ": " + sample.name, "holds no samples",
                         "Its first dimension must be the samples.");
      }
      if (samples_ == 0) samples_ = entry.shape[0];
      if (entry.shape[0] != samples_) {
        throw InputError(file_.path() + ": " + sample.name,
                         fmt::format("has {} samples, {} has {}", entry.shape[0],
                                     expected.front().name, samples_),
                         "All tensors must have the same first dimension.");
      }
    }
  }

  int64_t samples() const override { return samples_; }
  SampleType type(const std::string& name) const override {
    const SafetensorsEntry& entry = file_.entry(name);
    return {entry.dtype, {entry.shape.begin() + 1, entry.shape.end()}};
  }
  void read(const std::string& name, int64_t first,
            std::span<std::byte> destination) const override {
    const SafetensorsEntry& entry = file_.entry(name);
    const int64_t bytes = type(name).bytes();
    int64_t sample = first % samples_;
    while (!destination.empty()) {
      const auto run = std::min<size_t>((samples_ - sample) * bytes, destination.size());
      file_.read(entry, sample * bytes, destination.first(run));
      destination = destination.subspan(run);
      sample = 0;
    }
  }
  std::string place() const override { return file_.path(); }

 private:
  SafetensorsFile file_;
  int64_t samples_ = 0;
};

bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

void check_types(const Dataset& data, const std::vector<ExpectedSample>& expected) {
  for (const ExpectedSample& sample : expected) {
    const SampleType found = data.type(sample.name);
    const bool dtype =
        found.dtype == sample.dtype || (is_integer(found.dtype) && is_integer(sample.dtype));
    if (dtype && found.shape == sample.shape) continue;
    throw InputError(
        data.place() + ": " + sample.name,
        fmt::format("is {}, but the model takes {}", describe(found.dtype, found.shape),
                    describe(sample.dtype, sample.shape)),
        "Save it with that dtype and shape, or export the model for this data.");
  }
}

/// Rows of the embedding that reads the input directly.
std::optional<int64_t> embedding_rows(const Graph& model, ValueId input) {
  const auto consumers = model.consumers();  // outlives the loop over one of its entries
  for (const OperatorId id : consumers[input]) {
    const Operator& op = model.operators[id];
    if (full_name(op) != "aten::embedding" || op.arguments.size() < 2) continue;
    const auto* weight = std::get_if<TensorRef>(&op.arguments[0].value);
    const auto* ids = std::get_if<TensorRef>(&op.arguments[1].value);
    if (weight && ids && ids->value == input) return model.values[weight->value].shape.at(0).at(1);
  }
  return std::nullopt;
}

/// Sizes after the first dimension, for a batch of 1.
std::vector<int64_t> sample_shape(const Value& value, const std::string& model) {
  if (value.shape.empty()) {
    throw InputError(model, fmt::format("{} is a scalar and has no samples", value.name),
                     "Give the model inputs whose first dimension is the batch.");
  }
  std::vector<int64_t> shape;
  for (size_t i = 1; i < value.shape.size(); ++i) shape.push_back(value.shape[i].at(1));
  return shape;
}

/// A target is a row of a file, whose size no microbatch changes.
void check_sample_size(const Value& output, const std::string& model) {
  for (size_t i = 1; i < output.shape.size(); ++i) {
    if (!output.shape[i].depends_on_batch()) continue;
    throw InputError(model,
                     fmt::format("dimension {} of its output `{}` depends on the batch ({}), so no "
                                 "target can be saved for a sample",
                                 i, output.name, output.shape[i].str()),
                     "Compute the loss in the model and give `loss: output`, or fix the batch: "
                     "tools/export_model.py --static.");
  }
}

ExpectedSample expected_target(const Job& job, const Graph& model) {
  const std::optional<ValueId> output = model.first_output();
  if (!output) {
    throw InputError(model.path, "its first output is not a tensor, which the loss needs",
                     "Return the prediction first.");
  }
  const Value& value = model.values[*output];
  check_sample_size(value, model.path);
  ExpectedSample target{kTarget, value.dtype, sample_shape(value, model.path), std::nullopt};
  if (job.loss.kind == Loss::cross_entropy) {
    if (target.shape.empty()) {
      throw InputError(model.path,
                       "cross_entropy needs an output with classes in the last dimension",
                       "Use loss: mse, or return [batch, …, classes].");
    }
    target.limit = target.shape.back();
    target.shape.pop_back();
    target.dtype = DType::int64;
  }
  return target;
}

}  // namespace

std::vector<ExpectedSample> expected_samples(const Job& job, const Graph& model, bool with_target) {
  std::vector<ExpectedSample> samples;
  for (const ValueId input : model.inputs) {
    const Value& value = model.values[input];
    samples.push_back(
        {value.name, value.dtype, sample_shape(value, model.path), embedding_rows(model, input)});
  }
  if (with_target && job.loss.kind != Loss::output) samples.push_back(expected_target(job, model));
  return samples;
}

std::unique_ptr<Dataset> open_dataset(const Job& job, const Graph& model, bool with_target) {
  if (job.data.empty()) {
    throw InputError("job", "data is missing", "Name the files to train on under `data`.");
  }
  const auto expected = expected_samples(job, model, with_target);
  const auto tensors = std::count_if(job.data.begin(), job.data.end(), [](const std::string& path) {
    return std::filesystem::path(path).extension() == ".safetensors";
  });
  std::unique_ptr<Dataset> data;
  if (tensors == 1 && job.data.size() == 1) {
    auto file = std::make_unique<TensorDataset>(job.data[0]);
    file->check_names(expected);
    data = std::move(file);
  } else if (tensors > 0) {
    throw InputError("data",
                     fmt::format("{} .safetensors among {} files", tensors, job.data.size()),
                     "Give one .safetensors file, or text and .bin files.");
  } else {
    data = open_text(job, expected);
  }
  check_types(*data, expected);
  return data;
}

}  // namespace penstock
