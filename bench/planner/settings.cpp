#include "bench/planner/settings.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/quantity.hpp"

namespace penstock::bench {

namespace {

template <class Number, class Given>
void replace(Number& number, const std::optional<Given>& given, const char* option, bool used,
             const std::string& file) {
  if (!given) return;
  if (!used) {
    throw InputError(file, fmt::format("{} means nothing under this file's objective", option),
                     "Leave it out, or give the files of other kinds apart.");
  }
  number = *given;
}

}  // namespace

Setting with(Setting setting, const SettingOptions& options, const std::string& file) {
  const Objective objective = setting.objective;
  const bool max_load = objective == Objective::max_load, piper = objective == Objective::piper;
  replace(setting.devices, options.devices, "--devices", true, file);
  replace(setting.memory_bytes, options.memory_bytes, "--memory", max_load || piper, file);
  replace(setting.bytes_per_s, options.bytes_per_s, "--bandwidth",
          piper || objective == Objective::pipedream, file);
  replace(setting.batch, options.batch, "--batch", piper || objective == Objective::dapple, file);
  replace(setting.profile_batch, options.profile_batch, "--profile-batch",
          objective == Objective::dapple, file);
  return setting;
}

const char* name(Objective objective) {
  switch (objective) {
    case Objective::pipedream: return "PipeDream, time per batch";
    case Objective::dapple: return "DAPPLE, speedup over one device";
    case Objective::max_load: return "dnn-partitioning, contiguous max load";
    case Objective::piper: break;
  }
  return "Piper, time per sample";
}

const char* unit(Objective objective) {
  switch (objective) {
    case Objective::max_load: return "ms";
    case Objective::dapple: return "";
    default: return "s";
  }
}

bool larger_is_better(Objective objective) { return objective == Objective::dapple; }

std::string to_text(const Setting& setting) {
  switch (setting.objective) {
    case Objective::pipedream:
      return fmt::format("{} workers, {}", setting.devices,
                         format_bytes_per_second(setting.bytes_per_s));
    case Objective::dapple:
      return fmt::format("{} devices, 8 a machine, batch {}", setting.devices, setting.batch);
    case Objective::max_load:
      return fmt::format("{} accelerators of {}, {} CPUs", setting.devices,
                         format_bytes(setting.memory_bytes), setting.cpus);
    case Objective::piper: break;
  }
  return fmt::format("{} devices of {}, {}, batch {}", setting.devices,
                     format_bytes(setting.memory_bytes),
                     format_bytes_per_second(setting.bytes_per_s), setting.batch);
}

}  // namespace penstock::bench
