#include "backend/worker/state.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

void add_buffer(const LoadedPlan& loaded, int index, Executor& executor, NamedTensors& tensors) {
  tensors.emplace_back("buffer." + loaded.graph.tensors[static_cast<size_t>(index)].name,
                       executor.store().tensor(index));
}

/// Adds nothing for one that neither is trained nor was.
void add_parameter(const LoadedPlan& loaded, int index, Executor& executor, NamedTensors& tensors) {
  const StoredTensor& stored = loaded.graph.tensors[static_cast<size_t>(index)];
  if (!stored.requires_grad && !executor.store().restored(index)) return;
  tensors.emplace_back("parameter." + stored.name, executor.store().tensor(index));
  const auto state = executor.optimizer().states().find(index);
  if (state == executor.optimizer().states().end()) return;
  tensors.emplace_back("steps." + stored.name, at::scalar_tensor(state->second.steps, at::kLong));
  for (const auto& [key, tensor] : state->second.tensors) {
    tensors.emplace_back("optimizer." + stored.name + "." + key, tensor);
  }
}

}  // namespace

RankState rank_state(const LoadedPlan& loaded, Executor& executor) {
  RankState state;
  const std::set<int> updated = updated_buffers(loaded.graph);
  for (const int index : executor.store().indices()) {
    if (updated.contains(index)) add_buffer(loaded, index, executor, state.buffers);
    add_parameter(loaded, index, executor, state.trained);
  }
  return state;
}

namespace {

/// All tensors of some files by name, whichever has them.
class Contents {
 public:
  Contents(const std::vector<fs::path>& paths, std::string place) : place_(std::move(place)) {
    for (const fs::path& path : paths) files_.emplace_back(path);
    for (const SafetensorsFile& file : files_) {
      for (const auto& [name, entry] : file.entries()) where_.emplace(name, &file);
    }
  }

  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> found;
    for (const auto& [name, file] : where_) {
      if (name.starts_with(prefix)) found.push_back(name);
    }
    return found;
  }
  bool has(const std::string& name) const { return where_.contains(name); }
  /// The checkpoint is of the same model, so what it lacks was not trained.
  void require_trained(const std::string& name) const {
    if (has("parameter." + name)) return;
    throw InputError(place_, fmt::format("has no `{}`: it was frozen when this was saved", name),
                     "Freeze it again (optimizer.frozen), or take these weights into a model of "
                     "their own: `penstock export --format state-dict` with the plan of then.");
  }
  at::Tensor read(const std::string& name) const { return read_tensor(*where_.at(name), name); }

  void copy_to(const std::string& name, at::Tensor& tensor) const {
    if (!has(name)) throw InputError(place_, "has no " + name, "It is of another model.");
    const at::Tensor saved = read(name);
    if (saved.sizes() != tensor.sizes() || saved.scalar_type() != tensor.scalar_type()) {
      throw InputError(place_, fmt::format("{} has another shape or dtype than the model's", name),
                       "It is of another model.");
    }
    tensor.copy_(saved);
  }

 private:
  std::string place_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*> where_;
};

void load_optimizer(const Contents& contents, const std::string& name, at::Device device,
                    Optimizer::State& state) {
  state.steps = contents.read("steps." + name).item<int64_t>();
  const std::string prefix = "optimizer." + name + ".";
  for (const std::string& key : contents.names(prefix)) {
    const std::string rest = key.substr(prefix.size());
    if (rest.find('.') == std::string::npos) {
      state.tensors[rest] = contents.read(key).to(device);
    }
  }
}

}  // namespace

void load_state(const std::vector<fs::path>& files, const std::string& place,
                const LoadedPlan& loaded, Executor& executor, bool optimizer) {
  const Contents contents(files, place);
  const std::set<int> updated = updated_buffers(loaded.graph);
  for (const int index : executor.store().indices()) {
    const StoredTensor& stored = loaded.graph.tensors[index];
    at::Tensor& tensor = executor.store().tensor(index);
    if (updated.contains(index)) contents.copy_to("buffer." + stored.name, tensor);
    const std::string parameter = "parameter." + stored.name;
    if (!stored.requires_grad && !contents.has(parameter)) continue;
    contents.require_trained(stored.name);
    contents.copy_to(parameter, tensor);
    if (!stored.requires_grad) {  // trained before it was frozen
      executor.store().mark_restored(index);
      continue;
    }
    if (optimizer && executor.updates(index) && contents.has("steps." + stored.name)) {
      load_optimizer(contents, stored.name, tensor.device(), executor.optimizer().states()[index]);
    }
  }
}

}  // namespace penstock
