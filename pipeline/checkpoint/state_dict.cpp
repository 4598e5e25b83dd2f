#include "pipeline/checkpoint/state_dict.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "graph/pt2/pt2.hpp"

namespace penstock {

namespace {

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

/// The tensors of a checkpoint's files.
class StateDict::Saved {
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

/// Finds the values of each tensor.
class StateDict::Values {
 public:
  Values(const Plan& plan, const Graph& model, const std::optional<IntactCheckpoint>& checkpoint)
      : model_(model), weights_(model.path) {
    if (checkpoint) saved_ = std::make_unique<const Saved>(*checkpoint, plan, model);
    const std::vector<char> used = tensors_in_use(model);
    for (size_t index = 0; index < model.tensors.size(); ++index) {
      const StoredTensor& tensor = model.tensors[index];
      if (!tensor.in_state_dict()) continue;
      const bool trained = saved_ && saved_->has(key(tensor));
      if (saved_ && tensor.requires_grad && used[index] && !trained) saved_->lacks(tensor.name);
      trained_.emplace(static_cast<int>(index), trained);
    }
    require_values(model,
                   [&](int tensor) { return !trained_.contains(tensor) || trained_.at(tensor); });
    initial_ = read_initial_values(model);
    std::erase_if(initial_, [&](const auto& entry) {
      return !trained_.contains(entry.first) || trained_.at(entry.first);
    });
  }

  const std::map<int, InitialValues>& initialised() const { return initial_; }

  std::vector<SafetensorsSource> sources(const Initialise& initialise) const {
    std::vector<SafetensorsSource> sources;
    for (const auto& [index, trained] : trained_) {
      const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
      const auto read = [this, &initialise, index = index](std::span<std::byte> bytes) {
        fill(index, initialise, bytes);
      };
      for (const std::string& name : tensor.names())
        sources.push_back({name, tensor.dtype, tensor.sizes, read});
    }
    return sources;
  }

 private:
  static std::string key(const StoredTensor& tensor) {
    return (tensor.kind == StoredTensor::Kind::parameter ? "parameter." : "buffer.") + tensor.name;
  }

  void fill(int index, const Initialise& initialise, std::span<std::byte> bytes) const {
    const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
    if (trained_.at(index)) {
      saved_->read(key(tensor), tensor, bytes);
    } else if (const auto steps = initial_.find(index); steps != initial_.end()) {
      initialise(tensor, steps->second, bytes);
    } else {
      weights_.read(tensor, bytes);
    }
  }

  const Graph& model_;
  WeightFile weights_;
  std::unique_ptr<const Saved> saved_;
  std::map<int, bool> trained_;  // of the state dictionary's tensors: is it in the checkpoint?
  std::map<int, InitialValues> initial_;
};

StateDict::StateDict(const Plan& plan, const Graph& model,
                     const std::optional<IntactCheckpoint>& checkpoint)
    : values_(std::make_unique<const Values>(plan, model, checkpoint)) {}
StateDict::~StateDict() = default;

const std::map<int, InitialValues>& StateDict::initialised() const {
  return values_->initialised();
}

int64_t StateDict::write(const std::filesystem::path& output, const Initialise& initialise) const {
  const auto sources = values_->sources(initialise);
  write_safetensors(output, sources, {{"format", "pt"}});
  return static_cast<int64_t>(sources.size());
}

}  // namespace penstock
