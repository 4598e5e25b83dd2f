// Under which objective a file is solved, and for what machines.
#pragma once

#include <optional>
#include <string>

namespace penstock::bench {

enum class Objective { pipedream, dapple, max_load, piper };

/// Numbers that an objective does not use are 0.
struct Setting {
  Objective objective{};
  int devices = 0;          // workers, accelerators
  int cpus = 0;             // max load
  double memory_bytes = 0;  // of a device: max load, Piper
  double bytes_per_s = 0;   // PipeDream, Piper
  int batch = 0;            // microbatches (Piper) or samples (DAPPLE) of a step
  int profile_batch = 0;    // samples of the profile (DAPPLE)

  bool operator==(const Setting&) const = default;
};

/// Settings of the command line, which replace those of the file or the publication.
struct SettingOptions {
  std::optional<int> devices, batch, profile_batch;
  std::optional<double> memory_bytes, bytes_per_s;

  bool any() const { return devices || batch || profile_batch || memory_bytes || bytes_per_s; }
};

/// The setting with what was asked for in place. Throws InputError at `file` for an option that
/// means nothing under the objective.
Setting with(Setting setting, const SettingOptions& options, const std::string& file);

/// `DAPPLE speedup`.
const char* name(Objective objective);
/// The value's unit: `ms`, `s`, or nothing for a speedup.
const char* unit(Objective objective);
/// Whether a larger value is a better one.
bool larger_is_better(Objective objective);
/// `8 devices of 8.00 GiB, 26.8 GB/s, batch 1920`.
std::string to_text(const Setting& setting);

}  // namespace penstock::bench
