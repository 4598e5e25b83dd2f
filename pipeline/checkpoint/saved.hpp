// A folder of checkpoints, as `execute --save` fills it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/checkpoint/checkpoint.hpp"

namespace penstock {

/// The place of a checkpoint of that step in the end, and while it is written.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);
std::filesystem::path unfinished_path(const std::filesystem::path& folder, int64_t step);

/// The steps N of its `step-N` that have a manifest, ascending; none where it is no folder.
std::vector<int64_t> saved_steps(const std::filesystem::path& folder);

struct IntactCheckpoint {
  std::filesystem::path path;
  CheckpointManifest manifest;
  std::vector<int64_t> damaged;       // later steps of the folder that are not intact
  std::vector<std::string> warnings;  // one for each of them, with the damage
};

/// `folder` itself where it has a manifest, else the intact one of its `step-N` with the largest N;
/// every file is read. Nothing where it has no `step-N`, or is not there. Throws InputError naming
/// the damage where none is intact.
std::optional<IntactCheckpoint> find_intact(const std::filesystem::path& folder);
/// The same; throws InputError also where there is none.
IntactCheckpoint require_intact(const std::filesystem::path& folder);

/// Throws InputError if `folder` holds a checkpoint after `step`, the first that a run is to save
/// there, other than `damaged` ones: resuming takes the latest, which would be another run's.
void check_no_later_steps(const std::filesystem::path& folder, int64_t step,
                          const std::vector<int64_t>& damaged = {});

/// Keeps the `keep` latest checkpoints of a training up to that of `latest`, and removes the
/// earlier ones of the same training. What cannot be removed stays.
void remove_earlier(const std::filesystem::path& folder, const CheckpointManifest& latest,
                    int64_t keep);
/// Removes what killed runs had begun to write, or to remove.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace penstock
