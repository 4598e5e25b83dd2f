#include "pipeline/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr int64_t kVersion = 1;

std::string optimizer_name(const Plan& plan) {
  const std::string kind = plan.job.optimizer.kind == OptimizerSpec::Kind::sgd ? "sgd" : "adamw";
  return plan.job.precision == Precision::bf16 ? kind + " of float32 masters" : kind;
}

/// N of `step-N`, -1 for another name.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  const size_t digits = std::min(name.size(), size_t{5});
  std::from_chars(name.data() + digits, name.data() + name.size(), step);
  return name == checkpoint_path("", step).string() ? step : -1;
}

template <typename T>
void require_equal(const std::string& place, const char* what, const T& found, const T& wanted) {
  if (found == wanted) return;
  throw InputError(place,
                   fmt::format("was saved with {} {}, but the plan has {}", what, found, wanted),
                   "Resume with the plan's job unchanged; only the split may differ.");
}

}  // namespace

std::string to_json(const CheckpointManifest& manifest) {
  const nlohmann::ordered_json json{
      {"penstock", "checkpoint"},        {"version", kVersion},
      {"step", manifest.step},           {"samples", manifest.samples},
      {"seed", manifest.seed},           {"model_sha256", manifest.model_sha256},
      {"optimizer", manifest.optimizer}, {"files", manifest.files}};
  return json.dump(2) + "\n";
}

CheckpointManifest manifest_of(const Plan& plan, const std::string& model_sha256, int64_t step) {
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.samples = step * plan.job.global_batch;
  manifest.seed = plan.job.seed;
  manifest.model_sha256 = model_sha256;
  manifest.optimizer = optimizer_name(plan);
  return manifest;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kManifest, none);
}

std::vector<int64_t> saved_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step >= 0 && is_checkpoint(entry.path())) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

fs::path find_checkpoint(const fs::path& folder) {
  if (is_checkpoint(folder)) return folder;
  const std::vector<int64_t> steps = saved_steps(folder);
  if (!steps.empty()) return checkpoint_path(folder, steps.back());
  throw InputError(folder.string(), "holds no checkpoint",
                   "Give a folder that --save wrote, or one of its step-N.");
}

void check_no_later_steps(const fs::path& folder, int64_t step) {
  const std::vector<int64_t> steps = saved_steps(folder);
  if (steps.empty() || steps.back() <= step) return;
  throw InputError(
      folder.string(),
      fmt::format("holds a checkpoint of step {}, later than step {}, which this run would save "
                  "first: what resumes from the folder would take the older run's",
                  steps.back(), step),
      fmt::format(
          "Go on from it with --resume {}, save to another folder, or remove what is later.",
          folder.string()));
}

CheckpointManifest read_manifest(const fs::path& checkpoint) {
  const std::string place = (checkpoint / kManifest).string();
  const nlohmann::json document = read_json(place);
  const JsonValue json(document, place);
  require_version(json, kVersion);
  CheckpointManifest manifest{json.integer("step"),
                              json.integer("samples"),
                              static_cast<uint64_t>(json.integer("seed")),
                              json.text("model_sha256"),
                              json.text("optimizer"),
                              {}};
  const JsonValue files = json.at("files");
  for (const std::string& name : files.keys()) {
    if (name.find('/') != std::string::npos) files.refuse("names a file elsewhere", "");
    manifest.files[name] = files.text(name);
  }
  return manifest;
}

CheckpointManifest read_checkpoint(const fs::path& checkpoint, const Plan& plan,
                                   const std::string& model_sha256) {
  const std::string place = (checkpoint / kManifest).string();
  const CheckpointManifest manifest = read_manifest(checkpoint);
  const CheckpointManifest expected = manifest_of(plan, model_sha256, manifest.step);
  require_equal(place, "model sha256", manifest.model_sha256, expected.model_sha256);
  require_equal(place, "optimizer", manifest.optimizer, expected.optimizer);
  require_equal(place, "seed", manifest.seed, expected.seed);
  require_equal(place, "the next sample", manifest.samples, expected.samples);
  for (const auto& [name, sha256] : manifest.files) {
    const std::string found = sha256_of_file(checkpoint / name);
    if (found == sha256) continue;
    throw InputError((checkpoint / name).string(),
                     fmt::format("has sha256 {}, its manifest says {}", found, sha256),
                     "The file is damaged: resume from another checkpoint.");
  }
  return manifest;
}

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("step-{}", step);
}

fs::path unfinished_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format(".step-{}.unfinished", step);
}

}  // namespace penstock
