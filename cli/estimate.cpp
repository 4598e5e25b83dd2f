#include "cli/estimate.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/report/estimate_report.hpp"
#include "cli/report/terminal.hpp"
#include "estimate/estimate.hpp"
#include "estimate/fit.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock::cli {

namespace {

/// The device as the measured profile shows it, and what is told of that in the new profile.
DeviceSpec fitted(const ProfileOptions& options, const DeviceSpec& device, std::string& report,
                  std::map<std::string, std::string>& details) {
  const Profile measured = read_profile(options.fit);
  const EfficiencyFit fit = fit_efficiency(measured, read_model(measured.job), device);
  report = fit_report(fit, options.fit, terminal_columns());
  details["fit.profile"] = std::filesystem::path(options.fit).filename().string();
  details["fit.sha256"] = sha256_of_file(options.fit);
  details["fit.residual"] = fmt::format("{:.6g}", fit.residual);
  return fit.device;
}

}  // namespace

Profile estimated_profile(const ProfileOptions& options, const Job& job, const Graph& model) {
  if (options.spec.empty()) {
    throw InputError("--spec", "missing: an estimate needs the figures of a device",
                     "Name one, as in --spec configs/devices/h100.yaml.");
  }
  DeviceSpec device = read_device_spec(options.spec);
  std::string report;
  std::map<std::string, std::string> details;
  if (!options.fit.empty()) device = fitted(options, device, report, details);
  Profile profile = estimate(model, job, device);
  const sharding::Pins pins =
      options.sharding.empty() ? sharding::Pins() : read_plan(options.sharding).sharding;
  const std::set<int>& parts = options.tensor_parallel;
  profile.groups = estimate_groups(model, job, device, {parts.begin(), parts.end()}, pins);
  details["spec"] = std::filesystem::path(options.spec).filename().string();
  details["spec.sha256"] = sha256_of_file(options.spec);
  profile.device.details.merge(details);
  fmt::print("{}", report);
  return profile;
}

}  // namespace penstock::cli
