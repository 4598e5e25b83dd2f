// Jobs, and the checkpoints that they leave.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "base/safetensors.hpp"
#include "cli/show/lines.hpp"
#include "cli/show/show_text.hpp"
#include "pipeline/checkpoint/saved.hpp"
#include "pipeline/job/dataset.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

std::string missing(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none) ? "" : " (not there)";
}

std::string optimizer_of(const OptimizerSpec& spec) {
  std::string text =
      fmt::format("{}, learning rate {:g}", spec.kind == OptimizerSpec::Kind::sgd ? "sgd" : "adamw",
                  spec.learning_rate);
  if (spec.warmup_steps > 0) text += ", warm-up over " + format_number(spec.warmup_steps, "step");
  if (spec.decay != OptimizerSpec::Decay::constant)
    text += fmt::format(", {} to {:g}",
                        spec.decay == OptimizerSpec::Decay::linear ? "linear" : "cosine",
                        spec.final_learning_rate);
  if (spec.weight_decay > 0) text += fmt::format(", weight decay {:g}", spec.weight_decay);
  if (spec.clip_norm > 0) text += fmt::format(", gradients clipped to {:g}", spec.clip_norm);
  return text;
}

std::string unknown(const InputError& error) {
  const std::string why = error.what();
  return "not known: " + why.substr(0, why.find('\n'));
}

std::string loss_of(const LossSpec& loss) {
  const std::string smoothing =
      loss.label_smoothing > 0 ? fmt::format(", label smoothing {:g}", loss.label_smoothing) : "";
  return fmt::format("{}{}", name(loss.kind), smoothing);
}

/// Parameters that are trained, of all; why that is not known where the model cannot be read.
std::string trained_parameters(const Job& job) {
  try {
    int64_t all = 0, trained = 0;
    for (const StoredTensor& tensor : read_model(job).tensors) {
      if (tensor.kind != StoredTensor::Kind::parameter) continue;
      all += tensor.elements();
      if (tensor.requires_grad) trained += tensor.elements();
    }
    return fmt::format("{} of {} parameters", format_count(double(trained)),
                       format_count(double(all)));
  } catch (const InputError& error) {
    return unknown(error);
  }
}

std::string listed(const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& path : files) paths.push_back(path + missing(path));
  return fmt::format("{}", fmt::join(paths, ", "));
}

std::string data_of(const Job& job) {
  if (job.random_data) return "random: made up as the model and its loss take it";
  if (job.data.empty()) return "none: the job can be profiled, not trained";
  std::string text = listed(job.data);
  if (job.token_bytes > 0) text += fmt::format(", tokens of {} bytes", job.token_bytes);
  if (job.sequence > 0) text += fmt::format(", in windows of {}", job.sequence);
  return text;
}

/// The fate of the samples that are fewer than a global batch.
std::string last_batch_of(const Job& job, int64_t left) {
  switch (job.last_batch.value_or(LastBatch::wrap)) {
    case LastBatch::drop: return fmt::format("{} left out", left);
    case LastBatch::pad: return fmt::format("a last one of {}, filled up", left);
    case LastBatch::wrap: break;
  }
  return fmt::format("{} in a batch with the next epoch's first", left);
}

/// `640 samples, shuffled: 40 global batches`.
std::string epoch_of(const Job& job) {
  if (job.data.empty()) return "";
  try {
    const int64_t samples = open_dataset(job, read_model(job))->samples();
    const int64_t left = samples % job.global_batch;
    const std::string last = left == 0 ? "" : ", " + last_batch_of(job, left);
    return fmt::format("{}{}: {}{}", format_number(samples, "sample"),
                       job.shuffle ? ", shuffled" : "",
                       format_number(samples / job.global_batch, "global batch"), last);
  } catch (const InputError& error) {
    return unknown(error);
  }
}

std::string validation_of(const Validation& validation) {
  const std::string when = validation.every > 0
                               ? fmt::format("every {}", format_number(validation.every, "step"))
                               : "after the last step";
  return fmt::format("{}, {}", listed(validation.data), when);
}

/// By its header, which says how long it is; sums are compared where a run goes on from it.
bool is_whole(const fs::path& file) try {
  const SafetensorsFile header(file);
  return true;
} catch (const InputError&) {
  return false;
}

std::string files_of(const fs::path& checkpoint, const CheckpointManifest& manifest) {
  int64_t bytes = 0;
  std::vector<std::string> lost, damaged;
  for (const auto& [name, sha256] : manifest.files) {
    std::error_code none;
    const auto size = fs::file_size(checkpoint / name, none);
    if (none) {
      lost.push_back(name);
      continue;
    }
    bytes += static_cast<int64_t>(size);
    if (!is_whole(checkpoint / name)) damaged.push_back(name);
  }
  std::string text = fmt::format("{} of {}", format_bytes(bytes),
                                 format_number(std::ssize(manifest.files), "stage"));
  if (lost.empty() && damaged.empty()) return text + ", complete";
  if (!lost.empty()) text += fmt::format("; missing: {}", fmt::join(lost, ", "));
  if (!damaged.empty()) text += fmt::format("; damaged: {}", fmt::join(damaged, ", "));
  return text;
}

}  // namespace

std::string job_text(const std::string& path, ReportStyle style) {
  const Job job = read_job(path);
  Lines lines(style.columns);
  lines.add("model", job.model + missing(job.model));
  lines.add("trains", trained_parameters(job));
  lines.add("loss", loss_of(job.loss));
  lines.add("optimizer", optimizer_of(job.optimizer));
  if (job.precision == Precision::bf16) lines.add("precision", "bf16");
  lines.add("data", data_of(job));
  lines.add("epoch", epoch_of(job));
  if (job.validation) lines.add("validation", validation_of(*job.validation));
  lines.add("batch",
            fmt::format("{} in a step, {}, seed {}", format_number(job.global_batch, "sample"),
                        format_number(job.steps, "step"), job.seed));
  return fmt::format("{}\n\n{}", path, lines.text());
}

std::string checkpoint_text(const std::string& folder, ReportStyle style) {
  const fs::path last = is_checkpoint(folder) ? fs::path(folder)
                                              : checkpoint_path(folder, saved_steps(folder).back());
  const CheckpointManifest manifest = read_manifest(last);
  Lines lines(style.columns);
  if (!is_checkpoint(folder))
    lines.add("steps", fmt::format("{}", fmt::join(saved_steps(folder), ", ")));
  lines.add("last", last == folder ? "" : last.string());
  lines.add("trained", fmt::format("{}, {} seen, seed {}", format_number(manifest.step, "step"),
                                   format_number(manifest.samples, "sample"), manifest.seed));
  lines.add("optimizer", manifest.optimizer);
  lines.add("model", "SHA-256 " + manifest.model_sha256);
  lines.add("files", files_of(last, manifest));
  return fmt::format("{}\n\n{}", folder, lines.text());
}

}  // namespace penstock::cli
