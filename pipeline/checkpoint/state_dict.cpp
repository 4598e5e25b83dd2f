#include "pipeline/checkpoint/state_dict.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "graph/pt2/pt2.hpp"

namespace penstock {

namespace {

/// The tensors of a checkpoint's files.
class Saved {
 public:
  Saved(const IntactCheckpoint& checkpoint, const Plan& plan, const Graph& model)
      : place_(checkpoint.path) {
    check_goes_on(place_, checkpoint.manifest, plan, model.sha256);
    for (const auto& [name, hash] : checkpoint.manifest.files) {
      const SafetensorsFile& file = files_.emplace_back(place_ / name);
      for (const auto& [tensor, entry] : file.entries()) where_.emplace(tensor, &file);
    }
  }

  bool has(const std::string& name) const { return where_.contains(name); }

  void read(const std::string& name, const StoredTensor& tensor,
            std::span<std::byte> destination) const {
    const SafetensorsFile& file = *where_.at(name);
    const SafetensorsEntry& entry = file.entry(name);
    if (entry.shape != tensor.sizes || entry.dtype != tensor.dtype) {
      throw InputError(file.path(),
                       fmt::format("{} has another shape or dtype than the model's", name),
                       "It is of another model.");
    }
    file.read(entry, 0, destination);
  }

  /// It is of the same model, so what it lacks was not trained.
  [[noreturn]] void lacks(const std::string& name) const {
    throw InputError(place_.string(),
                     fmt::format("has no `{}`: it was frozen when this was saved", name),
                     "Export with the plan that it was trained with.");
  }

 private:
  std::filesystem::path place_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*> where_;
};

bool in_state_dict(const StoredTensor& tensor) {
  return tensor.kind == StoredTensor::Kind::parameter ||
         (tensor.kind == StoredTensor::Kind::buffer && tensor.persistent);
}

/// By tensor: does an operator read it, or the graph return it? No stage has what none does.
std::vector<char> tensors_in_use(const Graph& model) {
  std::vector<char> used(model.tensors.size(), 0);
  const auto use = [&](ValueId value) {
    const int tensor = model.values[static_cast<size_t>(value)].tensor;
    if (tensor >= 0) used[static_cast<size_t>(tensor)] = 1;
  };
  for (const Operator& op : model.operators)
    for (const ValueId value : op.reads()) use(value);
  for (const Output& output : model.outputs)
    if (const auto* returned = std::get_if<TensorRef>(&output.value)) use(returned->value);
  return used;
}

}  // namespace

int64_t write_state_dict(const Plan& plan, const Graph& model,
                         const std::optional<IntactCheckpoint>& checkpoint,
                         const std::filesystem::path& output) {
  std::optional<Saved> saved;
  if (checkpoint) saved.emplace(*checkpoint, plan, model);
  const WeightFile weights(model.path);
  const std::vector<char> used = tensors_in_use(model);
  std::vector<SafetensorsSource> sources;
  for (size_t index = 0; index < model.tensors.size(); ++index) {
    const StoredTensor& tensor = model.tensors[index];
    if (!in_state_dict(tensor)) continue;
    const bool parameter = tensor.kind == StoredTensor::Kind::parameter;
    const std::string key = (parameter ? "parameter." : "buffer.") + tensor.name;
    const bool trained = saved && saved->has(key);
    if (saved && tensor.requires_grad && used[index] && !trained) saved->lacks(tensor.name);
    const auto read = [&tensor, &weights, &saved, key, trained](std::span<std::byte> bytes) {
      trained ? saved->read(key, tensor, bytes) : weights.read(tensor, bytes);
    };
    sources.push_back({tensor.name, tensor.dtype, tensor.sizes, read});
    for (const std::string& alias : tensor.aliases) {
      sources.push_back({alias, tensor.dtype, tensor.sizes, read});
    }
  }
  write_safetensors(output, sources, {{"format", "pt"}});
  return static_cast<int64_t>(sources.size());
}

}  // namespace penstock
