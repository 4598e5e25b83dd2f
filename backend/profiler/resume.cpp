#include "backend/profiler/resume.hpp"

#include <filesystem>

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

std::vector<MicrobatchCosts> resume(const std::string& partial, const Profile& now) {
  if (!std::filesystem::exists(partial)) return {};
  try {
    Profile before = read_profile(partial);
    if (identity(before, partial) != identity(now, partial)) return {};
    return std::move(before.microbatches);
  } catch (const InputError&) {
    return {};  // incomplete, or of another version: measured anew
  }
}

}  // namespace penstock::profiler
