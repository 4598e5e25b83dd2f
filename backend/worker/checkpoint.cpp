#include "backend/worker/checkpoint.hpp"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/data/safetensors.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"
#include "pipeline/checkpoint/saved.hpp"

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

/// What a rank has written: the files with their hashes, or why it cannot write.
struct Written {
  std::map<std::string, std::string> files;
  std::string problem;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Written, files, problem)

template <typename Write>
Written or_problem(const Write& write) {
  try {
    return {write(), ""};
  } catch (const InputError& error) {  // the disk is full
    return {{}, error.what()};
  }
}

std::map<std::string, std::string> write_stages(const fs::path& folder, const LoadedPlan& loaded,
                                                Executor& executor, int rank) {
  std::map<std::string, std::string> files;
  for (int stage = 0; stage < loaded.program.stage_count(); ++stage) {
    if (loaded.program.rank_of_stage[stage] != rank) continue;  // other replicas have the same
    const std::string name = fmt::format("stage-{}.safetensors", stage);
    write_tensors(folder / name, stage_tensors(loaded, stage, executor));
    files[name] = sha256_of_file(folder / name);
  }
  return files;
}

/// Rank 0's, once all have written.
Written put_together(const Saving& saving, const LoadedPlan& loaded,
                     const std::vector<std::string>& written) {
  CheckpointManifest manifest = manifest_of(loaded.plan, loaded.graph.sha256, saving.step);
  manifest.extra = saving.extra;
  for (const std::string& text : written) {
    Written part = nlohmann::json::parse(text).get<Written>();
    if (!part.problem.empty()) return part;
    manifest.files.merge(part.files);
  }
  return or_problem([&] {
    const fs::path unfinished = unfinished_path(saving.folder, saving.step);
    write_file(unfinished / "manifest.json", to_json(manifest));
    put_in_place(unfinished, checkpoint_path(saving.folder, saving.step));
    remove_earlier(saving.folder, manifest, saving.keep);
    return manifest.files;
  });
}

/// Rank 0's value, on all ranks.
std::string from_rank_0(const Seat& seat, const std::string& key, const std::string& value) {
  if (seat.rank == 0) seat.store.set(key, value);
  return seat.store.get(key);
}

}  // namespace

void save_checkpoint(const Saving& saving, const LoadedPlan& loaded, Executor& executor,
                     const Seat& seat) {
  const std::string key = fmt::format("checkpoint/{}", saving.step);
  const fs::path unfinished = unfinished_path(saving.folder, saving.step);
  Written own = or_problem([&] {
    if (seat.rank == 0) {
      remove_unfinished(saving.folder);
      make_folder(unfinished);
    }
    return std::map<std::string, std::string>();
  });
  own.problem = from_rank_0(seat, key + "/begin", own.problem);
  if (own.problem.empty())
    own = or_problem([&] { return write_stages(unfinished, loaded, executor, seat.rank); });
  const auto written = gather(seat, key, nlohmann::json(own).dump());
  if (seat.rank == 0) own = put_together(saving, loaded, written);
  const std::string problem = from_rank_0(seat, key + "/end", own.problem);
  if (problem.empty()) return;
  if (seat.rank == 0) remove_unfinished(saving.folder);
  throw InputError(checkpoint_path(saving.folder, saving.step).string(),
                   "is not saved: " + problem);
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
