#include "backend/profiler/resume.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.hpp"

namespace penstock::profiler {
namespace {

/// Everything that the measurements depend on.
std::string identity(const Profile& profile, const std::string& file) {
  std::string text = to_yaml(profile.job, file) + profile.model_sha256 + '\n' +
                     profile.device.kind + '\n' + profile.device.name + '\n' +
                     std::to_string(profile.device.threads) + '\n';
  for (const char* detail :
       {"ranks", "ranks_per_device", "cores", "libtorch", "driver", "cuda", "quick"}) {
    const auto found = profile.device.details.find(detail);
    if (found != profile.device.details.end()) text += found->second + '\n';
  }
  return text;
}

}  // namespace

GroupCosts Resumed::costs_of(const GroupGraph& group) const {
  GroupCosts costs{.parts = group.parts, .sharding = group.sharding, .microbatches = {}};
  const auto is_of_graph = [&](const MicrobatchCosts& size) {
    return std::ranges::count(group.sizes, size.microbatch) > 0;
  };
  for (const GroupCosts& known : groups)
    if (known.parts == group.parts && known.sharding == group.sharding)
      std::ranges::copy_if(known.microbatches, std::back_inserter(costs.microbatches), is_of_graph);
  return costs;
}

Resumed resume(const std::string& partial, const Profile& now) {
  if (!std::filesystem::exists(partial)) return {};
  try {
    Profile before = read_profile(partial);
    if (identity(before, partial) != identity(now, partial)) return {};
    return {std::move(before.microbatches), std::move(before.groups)};
  } catch (const InputError&) {
    return {};  // incomplete, or of another version: measured anew
  }
}

}  // namespace penstock::profiler
