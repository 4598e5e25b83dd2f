#include "launch/supervision/slot_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <set>
#include <stdexcept>

#include "base/file.hpp"
#include "base/safetensors.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock {

namespace {

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw std::runtime_error("the run was ended");
}

/// Piece by piece: a second copy of a tensor may be more than there is memory for.
void copy_tensors(const SafetensorsFile& from, const std::vector<std::string>& names,
                  const std::filesystem::path& to, const std::stop_token& stop) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<SafetensorsPlace> places;
  for (const std::string& name : names)
    places.push_back({name, from.entry(name).dtype, from.entry(name).shape});
  SafetensorsWriter file(to, places);
  std::vector<std::byte> buffer(kPiece);
  for (size_t i = 0; i < names.size(); ++i) {
    const SafetensorsEntry& entry = from.entry(names[i]);
    for (int64_t at = 0; at < entry.bytes(); at += kPiece) {
      check_stop(stop);
      const auto piece =
          std::span(buffer).first(static_cast<size_t>(std::min(kPiece, entry.bytes() - at)));
      from.read(entry, at, piece);
      file.write(i, at, piece);
    }
  }
  file.commit();
}

CheckpointFiles write_rank(const std::filesystem::path& folder, const SavedRun& run, int rank,
                           const RankSnapshot& snapshot, const std::stop_token& stop) {
  if (snapshot.slot->checksum() != snapshot.checksum)
    throw std::runtime_error(fmt::format("rank {}'s snapshot of it is damaged", rank));
  const SafetensorsFile state(snapshot.slot->file());
  std::set<std::string> held;
  for (const auto& [name, entry] : state.entries()) held.insert(name);
  CheckpointFiles files;
  for (size_t stage = 0; stage < run.slicing.stages.size(); ++stage) {
    if (run.rank_of_stage[stage] != rank) continue;
    const std::string name = stage_file_name(static_cast<int>(stage));
    copy_tensors(state, stage_contents(run.graph, run.slicing.stages[stage], held), folder / name,
                 stop);
    check_stop(stop);
    files[name] = sha256_of_file(folder / name);
  }
  // A copy, or a replica's own, may meanwhile have given its place to a later one.
  if (snapshot.slot->checksum() != snapshot.checksum)
    throw std::runtime_error(fmt::format("rank {}'s snapshot of it was overwritten", rank));
  return files;
}

}  // namespace

CheckpointFiles write_part(const Saving& saving, const SavedRun& run, const RankSnapshots& ranks,
                           const std::stop_token& stop) {
  const std::filesystem::path folder = unfinished_path(saving.folder, saving.step);
  std::vector<std::future<CheckpointFiles>> parts;  // at once: the run may be about to be killed
  for (const auto& [rank, snapshot] : ranks) {
    parts.push_back(std::async(std::launch::async, [&, rank = rank, snapshot = snapshot] {
      return write_rank(folder, run, rank, snapshot, stop);
    }));
  }
  CheckpointFiles files;
  for (std::future<CheckpointFiles>& part : parts) files.merge(part.get());
  return files;
}

void write_checkpoint(const Saving& saving, const SavedRun& run, const RankSnapshots& ranks,
                      const OtherParts& others, const std::stop_token& stop) {
  CheckpointManifest manifest = manifest_of(run.plan, run.graph.sha256, saving.step);
  manifest.extra = saving.extra;
  try {
    begin_checkpoint(saving);
    others.begin();
    manifest.files = write_part(saving, run, ranks, stop);
    manifest.files.merge(others.finish(stop));
    check_stop(stop);
    put_together(saving, manifest);
  } catch (const std::exception& error) {
    remove_unfinished(saving.folder);
    throw not_saved(saving, error.what());
  }
}

}  // namespace penstock
