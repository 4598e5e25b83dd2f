#include "backend/worker/checkpoint.hpp"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/data/safetensors.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/checkpoint/checkpoint.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

/// The tensors that one stage contributes.
NamedTensors stage_tensors(const LoadedPlan& loaded, int stage, Executor& executor) {
  const StageSlice& slice = loaded.slicing.stages[stage];
  NamedTensors tensors;
  for (const BufferUpdate& update : slice.updates) {
    tensors.emplace_back("buffer." + loaded.graph.tensors[update.tensor].name,
                         executor.store().tensor(update.tensor));
  }
  for (const int index : slice.tensors) {
    const StoredTensor& stored = loaded.graph.tensors[index];
    if (!stored.requires_grad && !executor.store().restored(index)) continue;
    tensors.emplace_back("parameter." + stored.name, executor.store().tensor(index));
    const auto state = executor.optimizer().states().find(index);
    if (state == executor.optimizer().states().end()) continue;
    tensors.emplace_back("steps." + stored.name, at::scalar_tensor(state->second.steps, at::kLong));
    for (const auto& [key, tensor] : state->second.tensors) {
      tensors.emplace_back("optimizer." + stored.name + "." + key, tensor);
    }
  }
  return tensors;
}

/// Moves `from` to the checkpoint `to`, replacing one that is there.
void put_in_place(const fs::path& from, const fs::path& to) {
  const fs::path old = from.string() + ".old";
  fs::remove_all(old);
  if (fs::exists(to)) fs::rename(to, old);
  fs::rename(from, to);
  fs::remove_all(old);
}

void save(const fs::path& folder, int64_t step, const LoadedPlan& loaded, Executor& executor,
          Communicator& communicator, const Seat& seat) {
  const fs::path unfinished = unfinished_path(folder, step);
  if (seat.rank == 0) {
    fs::remove_all(unfinished);
    fs::create_directories(unfinished);
  }
  communicator.barrier();
  std::map<std::string, std::string> files;
  for (int stage = 0; stage < loaded.program.stage_count(); ++stage) {
    if (loaded.program.rank_of_stage[stage] != seat.rank) continue;  // other replicas have the same
    const std::string name = fmt::format("stage-{}.safetensors", stage);
    write_tensors(unfinished / name, stage_tensors(loaded, stage, executor));
    files[name] = sha256_of_file(unfinished / name);
  }
  const auto all = gather(seat, fmt::format("checkpoint/{}", step), nlohmann::json(files).dump());
  if (seat.rank == 0) {
    CheckpointManifest manifest = manifest_of(loaded.plan, loaded.graph.sha256, step);
    for (const std::string& text : all) {
      manifest.files.merge(nlohmann::json::parse(text).get<std::map<std::string, std::string>>());
    }
    write_file(unfinished / "manifest.json", to_json(manifest));
    put_in_place(unfinished, checkpoint_path(folder, step));
  }
  communicator.barrier();
}

}  // namespace

void save_checkpoint(const fs::path& folder, int64_t step, const LoadedPlan& loaded,
                     Executor& executor, Communicator& communicator, const Seat& seat) {
  try {
    save(folder, step, loaded, executor, communicator, seat);
  } catch (...) {  // the disk is full, or a peer is gone
    std::error_code ignored;
    fs::remove_all(unfinished_path(folder, step), ignored);
    throw;
  }
}

namespace {

/// All tensors of a checkpoint by name, whichever file has them.
class Contents {
 public:
  explicit Contents(const fs::path& checkpoint) : place_(checkpoint.string()) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
    }
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

void load_state(const Contents& contents, const std::string& name, at::Device device,
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

void load_checkpoint(const fs::path& checkpoint, const LoadedPlan& loaded, Executor& executor,
                     bool optimizer) {
  const Contents contents(checkpoint);
  std::set<int> updated;
  for (const BufferUpdate& update : loaded.graph.updates) updated.insert(update.tensor);
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
      load_state(contents, stored.name, tensor.device(), executor.optimizer().states()[index]);
    }
  }
}

}  // namespace penstock
