#include "pipeline/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kOwnHash = "manifest_sha256";
constexpr int64_t kVersion = 1;

std::string optimizer_name(const Plan& plan) {
  const std::string kind = plan.job.optimizer.kind == OptimizerSpec::Kind::sgd ? "sgd" : "adamw";
  return plan.job.precision == Precision::bf16 ? kind + " of float32 masters" : kind;
}

/// The hash of all else in the manifest: of its content, however that is laid out.
std::string own_hash(nlohmann::json manifest) {
  manifest.erase(kOwnHash);
  return sha256(manifest.dump());
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
  nlohmann::ordered_json json{
      {"penstock", "checkpoint"},        {"version", kVersion},
      {"step", manifest.step},           {"samples", manifest.samples},
      {"seed", manifest.seed},           {"model_sha256", manifest.model_sha256},
      {"optimizer", manifest.optimizer}, {"files", manifest.files}};
  if (!manifest.extra.is_null()) json["extra"] = manifest.extra;
  json[kOwnHash] = own_hash(json);
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

CheckpointManifest read_manifest(const fs::path& checkpoint) {
  const std::string place = (checkpoint / kManifest).string();
  const nlohmann::json document = read_json(place);
  const JsonValue json(document, place);
  require_version(json, kVersion);
  if (const std::string found = own_hash(document);
      json.has(kOwnHash) && json.text(kOwnHash) != found) {
    throw InputError(place,
                     fmt::format("has sha256 {}, itself says {}", found, json.text(kOwnHash)),
                     "It is damaged: take another checkpoint.");
  }
  CheckpointManifest manifest{json.integer("step"),
                              json.integer("samples"),
                              static_cast<uint64_t>(json.integer("seed")),
                              json.text("model_sha256"),
                              json.text("optimizer"),
                              {},
                              document.value("extra", nlohmann::json())};
  const JsonValue files = json.at("files");
  for (const std::string& name : files.keys()) {
    if (name.find('/') != std::string::npos) files.refuse("names a file elsewhere", "");
    manifest.files[name] = files.text(name);
  }
  return manifest;
}

CheckpointManifest read_intact(const fs::path& checkpoint) {
  CheckpointManifest manifest = read_manifest(checkpoint);
  for (const auto& [name, sha256] : manifest.files) {
    const std::string found = sha256_of_file(checkpoint / name);
    if (found == sha256) continue;
    throw InputError((checkpoint / name).string(),
                     fmt::format("has sha256 {}, its manifest says {}", found, sha256),
                     "The file is damaged: take another checkpoint.");
  }
  return manifest;
}

void check_goes_on(const fs::path& checkpoint, const CheckpointManifest& manifest, const Plan& plan,
                   const std::string& model_sha256) {
  const std::string place = (checkpoint / kManifest).string();
  const CheckpointManifest expected = manifest_of(plan, model_sha256, manifest.step);
  require_equal(place, "model sha256", manifest.model_sha256, expected.model_sha256);
  require_equal(place, "optimizer", manifest.optimizer, expected.optimizer);
  require_equal(place, "seed", manifest.seed, expected.seed);
  require_equal(place, "the next sample", manifest.samples, expected.samples);
}

}  // namespace penstock
