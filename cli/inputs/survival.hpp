// --survive: whether a run is one that can survive failures, and whether there is memory for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/job/job.hpp"

namespace penstock::cli {

/// Throws InputError for another word than `off`, `local` and, where that is allowed, `auto`.
void check_survive(const std::string& how, bool allows_auto);

/// Has ranks count with the most snapshots that they have at once, as --survive of `plan` and
/// `simulate` asks for. `device`: its kind, of the profile. Throws InputError where ranks are not to
/// survive there.
void count_snapshots(const std::string& how, const std::string& device, Job& job);

/// What all ranks of a machine need together.
struct NeededMemory {
  int64_t training_bytes = 0;
  int64_t snapshot_bytes = 0;  // of one copy
  int64_t snapshots = 2;
  int64_t bytes() const { return training_bytes + snapshots * snapshot_bytes; }
};

/// Memory that may be taken without swapping, as the system estimates it.
int64_t available_memory_bytes();

/// The numbers, where that is less than what is needed; else "".
std::string memory_shortage(const NeededMemory& needed, int64_t available_bytes);

}  // namespace penstock::cli
