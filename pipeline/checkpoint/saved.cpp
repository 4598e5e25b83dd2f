#include "pipeline/checkpoint/saved.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

/// N of `step-N`, -1 for another name.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  const size_t digits = std::min(name.size(), size_t{5});
  std::from_chars(name.data() + digits, name.data() + name.size(), step);
  return name == checkpoint_path("", step).string() ? step : -1;
}

/// Ascending, with a manifest or without.
std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step >= 0) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

/// The message without its cure.
std::string reason(const InputError& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

int64_t global_batch(const CheckpointManifest& manifest) {
  return manifest.step > 0 ? manifest.samples / manifest.step : 0;
}

bool same_training(const CheckpointManifest& one, const CheckpointManifest& other) {
  return one.model_sha256 == other.model_sha256 && one.optimizer == other.optimizer &&
         one.seed == other.seed && global_batch(one) == global_batch(other);
}

/// A manifest that cannot be read says nothing of whose it is.
bool is_of_training(const fs::path& checkpoint, const CheckpointManifest& manifest) {
  try {
    return same_training(read_manifest(checkpoint), manifest);
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("step-{}", step);
}

fs::path unfinished_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format(".step-{}.unfinished", step);
}

std::vector<int64_t> saved_steps(const fs::path& folder) {
  std::vector<int64_t> steps = steps_in(folder);
  std::erase_if(steps, [&](int64_t step) { return !is_checkpoint(checkpoint_path(folder, step)); });
  return steps;
}

std::optional<IntactCheckpoint> find_intact(const fs::path& folder) {
  if (is_checkpoint(folder)) return IntactCheckpoint{folder, read_intact(folder), {}, {}};
  IntactCheckpoint found;
  std::vector<int64_t> steps = steps_in(folder);
  if (steps.empty()) return std::nullopt;
  for (; !steps.empty(); steps.pop_back()) {
    found.path = checkpoint_path(folder, steps.back());
    try {
      found.manifest = read_intact(found.path);
      return found;
    } catch (const InputError& error) {
      found.damaged.push_back(steps.back());
      found.warnings.push_back(
          fmt::format("{} is damaged and left out: {}", found.path.string(), reason(error)));
    }
  }
  throw InputError(
      folder.string(),
      fmt::format("holds no intact checkpoint\n  {}", fmt::join(found.warnings, "\n  ")),
      "Start anew, saving to another folder.");
}

IntactCheckpoint require_intact(const fs::path& folder) {
  if (auto found = find_intact(folder)) return *found;
  throw InputError(folder.string(), "holds no checkpoint",
                   "Give a folder that --save wrote, or one of its step-N.");
}

void check_no_later_steps(const fs::path& folder, int64_t step,
                          const std::vector<int64_t>& damaged) {
  for (const int64_t later : saved_steps(folder)) {
    if (later <= step || std::ranges::find(damaged, later) != damaged.end()) continue;
    throw InputError(
        folder.string(),
        fmt::format("holds a checkpoint of step {}, later than step {}, which this run would save "
                    "first: what resumes from the folder would take the older run's",
                    later, step),
        fmt::format("Go on from it with --resume {}, save to another folder, or remove what is "
                    "later.",
                    folder.string()));
  }
}

void remove_earlier(const fs::path& folder, const CheckpointManifest& latest, int64_t keep) {
  std::vector<int64_t> steps = saved_steps(folder);
  std::erase_if(steps, [&](int64_t step) {
    return step > latest.step || !is_of_training(checkpoint_path(folder, step), latest);
  });
  for (size_t i = 0; static_cast<int64_t>(i) + keep < std::ssize(steps); ++i) {
    std::error_code none;
    const fs::path removed = unfinished_path(folder, steps[i]);
    fs::rename(checkpoint_path(folder, steps[i]), removed, none);  // it is never seen half-removed
    fs::remove_all(removed, none);
  }
}

void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".step-") && name.find(".unfinished") != std::string::npos)
      found.push_back(entry.path());
  }
  for (const fs::path& path : found) fs::remove_all(path, none);
}

}  // namespace penstock
