#include "backend/worker/checkpoint.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "backend/worker/state.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

/// The files that a rank has written with their hashes, or why it cannot write.
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
  std::map<std::string, at::Tensor> state;
  std::set<std::string> held;
  const RankState found = rank_state(loaded, executor);
  for (const auto* tensors : {&found.buffers, &found.trained}) {
    state.insert(tensors->begin(), tensors->end());
    for (const auto& [name, tensor] : *tensors) held.insert(name);
  }
  std::map<std::string, std::string> files;
  for (int stage = 0; stage < loaded.program.stage_count(); ++stage) {
    if (loaded.program.rank_of_stage[stage] != rank) continue;  // other replicas have the same
    NamedTensors tensors;
    for (const std::string& name :
         stage_contents(loaded.graph, loaded.slicing.stages[static_cast<size_t>(stage)], held))
      tensors.emplace_back(name, state.at(name));
    const std::string file = stage_file_name(stage);
    write_tensors(folder / file, tensors);
    files[file] = sha256_of_file(folder / file);
  }
  return files;
}

/// Rank 0's, once all have written.
Written gather_files(const Saving& saving, const LoadedPlan& loaded,
                     const std::vector<std::string>& written) {
  CheckpointManifest manifest = manifest_of(loaded.plan, loaded.graph.sha256, saving.step);
  manifest.extra = saving.extra;
  for (const std::string& text : written) {
    Written part = nlohmann::json::parse(text).get<Written>();
    if (!part.problem.empty()) return part;
    manifest.files.merge(part.files);
  }
  return or_problem([&] {
    put_together(saving, manifest);
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
    if (seat.rank == 0) begin_checkpoint(saving);
    return std::map<std::string, std::string>();
  });
  own.problem = from_rank_0(seat, key + "/begin", own.problem);
  if (own.problem.empty())
    own = or_problem([&] { return write_stages(unfinished, loaded, executor, seat.rank); });
  const auto written = gather(seat, key, nlohmann::json(own).dump());
  if (seat.rank == 0) own = gather_files(saving, loaded, written);
  const std::string problem = from_rank_0(seat, key + "/end", own.problem);
  if (problem.empty()) return;
  if (seat.rank == 0) remove_unfinished(saving.folder);
  throw not_saved(saving, problem);
}

void load_checkpoint(const fs::path& checkpoint, const LoadedPlan& loaded, Executor& executor,
                     bool optimizer) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  load_state(files, checkpoint.string(), loaded, executor, optimizer);
}

}  // namespace penstock
