#include "pipeline/job/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "graph/evaluation/evaluation.hpp"
#include "graph/pt2/pt2.hpp"

namespace penstock {

namespace {

constexpr int64_t float32_bytes = 4;

bool matches(const std::string& pattern, const StoredTensor& tensor) {
  if (tensor.kind != StoredTensor::Kind::parameter) return false;
  return std::ranges::any_of(tensor.names(),
                             [&](const std::string& name) { return matches_name(pattern, name); });
}

/// Parameters and the modules that have some.
std::vector<std::string> known_names(const Graph& model) {
  std::vector<std::string> known;
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.kind != StoredTensor::Kind::parameter) continue;
    for (const std::string& name : tensor.names()) {
      known.push_back(name);
      for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
        known.push_back(name.substr(0, dot));
    }
  }
  return known;
}

void require_match(const Graph& model, const std::string& pattern, const std::string& place) {
  const auto is_meant = [&](const StoredTensor& tensor) { return matches(pattern, tensor); };
  if (std::ranges::any_of(model.tensors, is_meant)) return;
  std::string cure = did_you_mean(pattern, known_names(model));
  if (cure.empty())
    cure = "Name a parameter or a module as the Python module does; `*` is any text.";
  throw InputError(place, fmt::format("no parameter of {} has the name `{}`", model.path, pattern),
                   cure);
}

bool any_matches(const std::vector<std::string>& patterns, const StoredTensor& tensor) {
  return std::ranges::any_of(patterns, [&](const auto& each) { return matches(each, tensor); });
}

void freeze(const OptimizerSpec& spec, Graph& model) {
  for (size_t i = 0; i < spec.frozen.size(); ++i)
    require_match(model, spec.frozen[i], fmt::format("optimizer.frozen[{}]", i));
  for (StoredTensor& tensor : model.tensors)
    if (any_matches(spec.frozen, tensor)) tensor.requires_grad = false;
  const auto trained = [](const StoredTensor& tensor) { return tensor.requires_grad; };
  if (spec.frozen.empty() || std::ranges::any_of(model.tensors, trained)) return;
  throw InputError("optimizer.frozen", fmt::format("nothing of {} is left to train", model.path),
                   "Freeze fewer parameters.");
}

ParameterSettings settings(const OptimizerSpec& spec, const StoredTensor& tensor) {
  ParameterSettings own{spec.learning_rate, spec.weight_decay};
  if (spec.no_decay_of_norms_biases && tensor.sizes.size() < 2) own.weight_decay = 0;
  for (const ParameterGroup& group : spec.groups) {
    if (!any_matches(group.parameters, tensor)) continue;
    own.learning_rate = group.learning_rate.value_or(own.learning_rate);
    own.weight_decay = group.weight_decay.value_or(own.weight_decay);
    break;
  }
  return own;
}

void require_bf16(const Job& job, const Graph& model) {
  if (job.precision != Precision::bf16) return;
  for (const StoredTensor& tensor : model.tensors) {
    if (!tensor.requires_grad || tensor.dtype == DType::bfloat16) continue;
    throw InputError(
        "precision",
        fmt::format("bf16, but `{}` of {} is {}", tensor.name, model.path, name(tensor.dtype)),
        "Export the model with `--dtype bfloat16`, or remove the key.");
  }
}

/// PyTorch's "grad can be implicitly created only for scalar outputs", before anything runs.
void require_scalar_loss(const Job& job, const Graph& model) {
  if (job.loss.kind != Loss::output) return;
  const char* cure =
      "Let the model return its loss first, a scalar, such as the mean of what it returns; or name "
      "a loss that compares its output with the data's `target`.";
  const std::optional<ValueId> output = model.first_output();
  if (!output)
    throw InputError(
        "loss", fmt::format("output, but the first output of {} is no tensor", model.path), cure);
  const Value& value = model.values[*output];
  const auto is_one = [](const Expression& size) {
    return !size.depends_on_batch() && size.at(1) == 1;
  };
  if (std::ranges::all_of(value.shape, is_one) && is_floating(value.dtype)) return;
  throw InputError("loss",
                   fmt::format("output, but the first output of {}, `{}`, is {}: gradients start "
                               "from a scalar of floating type",
                               model.path, value.name, value.type()),
                   cure);
}

}  // namespace

Graph read_model(const Job& job) {
  Graph model = read_pt2(job.model);
  apply_job(job, model);
  return model;
}

void apply_job(const Job& job, Graph& model) {
  freeze(job.optimizer, model);
  parameter_settings(job.optimizer, model);
  require_bf16(job, model);
  if (job.forward_only) {
    model = for_inference(std::move(model));
  } else {
    require_scalar_loss(job, model);
  }
}

Graph for_inference(Graph model) {
  model = in_evaluation(std::move(model));
  for (StoredTensor& tensor : model.tensors) tensor.requires_grad = false;
  return model;
}

std::map<int, ParameterSettings> parameter_settings(const OptimizerSpec& spec, const Graph& model) {
  for (size_t i = 0; i < spec.groups.size(); ++i)
    for (const std::string& pattern : spec.groups[i].parameters)
      require_match(model, pattern, fmt::format("optimizer.groups[{}].parameters", i));
  std::map<int, ParameterSettings> by_tensor;
  for (size_t index = 0; index < model.tensors.size(); ++index)
    if (model.tensors[index].requires_grad)
      by_tensor[static_cast<int>(index)] = settings(spec, model.tensors[index]);
  return by_tensor;
}

bool has_master(const Job& job, const StoredTensor& tensor) {
  return job.precision == Precision::bf16 && tensor.requires_grad &&
         tensor.dtype == DType::bfloat16;
}

int64_t gradient_bytes(const Job& job, const StoredTensor& tensor) {
  if (!tensor.requires_grad) return 0;
  return has_master(job, tensor) ? float32_bytes * tensor.elements() : tensor.bytes();
}

int64_t training_bytes(const Job& job, const StoredTensor& tensor) {
  const int64_t copies = has_master(job, tensor) ? 2 : 1;  // the gradient, and the master
  return gradient_bytes(job, tensor) * (copies + job.optimizer.state_per_parameter());
}

std::set<int> updated_buffers(const Graph& model) {
  std::set<int> buffers;
  for (const BufferUpdate& update : model.updates) buffers.insert(update.tensor);
  return buffers;
}

int64_t snapshot_bytes(const Job& job, const StoredTensor& tensor, bool updated, bool stepped) {
  int64_t bytes = updated ? tensor.bytes() : 0;
  if (!tensor.requires_grad) return bytes;
  bytes += tensor.bytes();
  if (!stepped) return bytes;
  const int64_t count = size_bytes(DType::int64);  // of its steps
  return bytes + training_bytes(job, tensor) - gradient_bytes(job, tensor) + count;
}

}  // namespace penstock
