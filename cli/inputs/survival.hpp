// --survive: whether a run is one that can survive failures, and whether there is memory for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs/execute_check.hpp"
#include "launch/launcher.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::cli {

/// Has ranks count with the most snapshots that they have at once, as --survive of `plan` and
/// `simulate` asks for. `device`: its kind, of the profile. Throws InputError where ranks are not
/// to survive there, or for another word than off, local and peers.
void count_snapshots(const std::string& how, const std::string& device, Job& job);

struct Survival {
  bool survives = false, peers = false;
  std::string why_not;  // where `auto` has it not survive
};

/// Decides by --survive (off, local, peers or auto) for the ranks of this machine.
/// `peak_bytes`: of each rank of a replica, as predicted; empty: what they hold in any case counts.
/// Throws InputError where the run is to survive and cannot.
Survival find_survival(const ExecuteOptions& options, const std::optional<Launcher>& launcher,
                       const CheckedRun& checked, bool saves,
                       const std::vector<int64_t>& peak_bytes);

}  // namespace penstock::cli
