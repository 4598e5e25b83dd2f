#include "cli/inputs/survival.hpp"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock::cli {

void check_survive(const std::string& how, bool allows_auto) {
  if (how == "off" || how == "local" || (allows_auto && how == "auto")) return;
  throw InputError("--survive", "'" + how + "' is not known",
                   allows_auto ? "Use off, local or auto." : "Use off or local.");
}

void count_snapshots(const std::string& how, const std::string& device, Job& job) {
  check_survive(how, /*allows_auto=*/false);
  if (how == "off") return;
  if (device != "cpu" || job.forward_only)
    throw InputError("--survive", "is for training on CPUs", "Leave it out.");
  job.snapshots = most_snapshots;
}

int64_t available_memory_bytes() {
  constexpr int64_t kilobyte = 1024;
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return kilobytes * kilobyte;
  }
  throw std::runtime_error("/proc/meminfo says nothing of MemAvailable");
}

std::string memory_shortage(const NeededMemory& needed, int64_t available_bytes) {
  if (needed.bytes() <= available_bytes) return "";
  return fmt::format(
      "the ranks need {}, {} to train and {} for {} copies of their state, but {} are available",
      format_bytes(needed.bytes()), format_bytes(needed.training_bytes),
      format_bytes(needed.snapshots * needed.snapshot_bytes), needed.snapshots,
      format_bytes(available_bytes));
}

}  // namespace penstock::cli
