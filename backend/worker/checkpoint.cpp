#include "backend/worker/checkpoint.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
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

/// Goes on after a stage that it cannot write: the ranks may have parts of one another's stages.
Written write_stages(const fs::path& folder, const LoadedPlan& loaded, Executor& executor,
                     int rank) {
  Written all;
  for (int stage = 0; stage < loaded.program.stage_count(); ++stage) {
    const std::string name = stage_file_name(stage);
    Written one = or_problem([&] {
      std::map<std::string, std::string> files;
      write_stage(folder / name, loaded, stage, executor, rank);
      if (writer_of_stage(loaded, stage) == rank) files[name] = sha256_of_file(folder / name);
      return files;
    });
    all.files.merge(one.files);
    if (all.problem.empty()) all.problem = one.problem;
  }
  return all;
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
  if (own.problem.empty()) own = write_stages(unfinished, loaded, executor, seat.rank);
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
