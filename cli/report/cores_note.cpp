#include "cli/report/cores_note.hpp"

#include <fmt/format.h>

#include <set>

#include "base/quantity.hpp"

namespace penstock::cli {

std::string cores_note(const Costs& costs) {
  int64_t ranks = 0;
  std::set<int> cores;
  for (const std::vector<int>& own : costs.cores) {
    ranks += static_cast<int64_t>(own.size());
    cores.insert(own.begin(), own.end());
  }
  if (ranks == 0) return "";
  return fmt::format("{} share {}", format_number(ranks, "rank"),
                     format_number(static_cast<int64_t>(cores.size()), "core"));
}

std::string cores_note(const Planned& planned, const Profile& profile, const Cluster* cluster) {
  const std::string shared = cores_note(planned.costs);
  const int cores = profile.device.cores;
  if (!shared.empty() || cluster || cores == 0 || planned.devices <= cores) return shared;
  return fmt::format("more ranks than the machine's {} would share them: {} of {} planned", cores,
                     planned.plan.all_ranks(), planned.devices);
}

}  // namespace penstock::cli
