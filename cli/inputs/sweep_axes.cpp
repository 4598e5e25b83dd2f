#include "cli/inputs/sweep_axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/files/wanted_kind.hpp"
#include "cli/inputs/overrides.hpp"
#include "estimate/estimate.hpp"
#include "simulator/costs/forward_costs.hpp"

namespace penstock::cli {

namespace {

using Change = std::function<void(PlanCase&)>;

constexpr int64_t most_ranks = int64_t{1} << 24;
constexpr const char* sweep_flag = "--sweep";

/// The sweep for which the values of a key are read.
struct SweepSource {
  const std::string& key;
  const PlanCase& base;
  const Graph& model;
  std::string place() const { return fmt::format("{} {}", sweep_flag, key); }
};

void require_unset(bool set, const SweepSource& source, const char* flag) {
  if (!set) return;
  throw InputError(source.place(), fmt::format("does not go with {}", flag),
                   "Leave one of them out.");
}

Change change_ranks(const std::string& text, const SweepSource& source) {
  require_unset(source.base.request.ranks.has_value(), source, "--ranks");
  const auto ranks = static_cast<int>(parse_number(text, source.place(), int64_t{1}, most_ranks));
  return [ranks](PlanCase& plan) { plan.request.ranks = ranks; };
}

Change change_memory(const std::string& text, const SweepSource& source) {
  require_unset(source.base.request.memory_bytes.has_value(), source, "--memory");
  const int64_t bytes = parse_bytes(text, source.place());
  return [bytes](PlanCase& plan) { plan.request.memory_bytes = bytes; };
}

Change change_batch(const std::string& text, const SweepSource& source) {
  const int64_t samples = parse_number(text, source.place(), int64_t{1}, max_samples);
  return [samples](PlanCase& plan) { plan.profile.job.global_batch = samples; };
}

void require_estimate(const SweepSource& source) {
  const Profile& profile = source.base.profile;
  if (!estimate_note(profile).empty()) return;
  throw InputError(
      source.place(),
      fmt::format("{} {}, so it says nothing of another device", profile.path,
                  of_layers(profile) ? "is a table of layers" : "was measured on its device"),
      "Estimate a profile, and sweep over devices of that: penstock profile JOB.yaml --device "
      "estimate --spec DEVICE.yaml -o PROFILE.json.");
}

/// Groups of as many parts as were estimated, from what was asked for then: the first has that.
std::vector<GroupCosts> estimate_again(const std::vector<GroupCosts>& groups, const Graph& model,
                                       const Job& job, const DeviceSpec& device) {
  if (groups.empty()) return {};
  std::set<int> parts;
  for (const GroupCosts& group : groups) parts.insert(group.parts);
  return estimate_groups(model, job, device, {parts.begin(), parts.end()}, groups.front().sharding);
}

/// Estimates anew, with the batch that is to be planned.
Change change_device(const std::string& text, const SweepSource& source) {
  require_estimate(source);
  require_kind(text, source.place(), {FileKind::device});
  return [device = read_device_spec(text), &model = source.model](PlanCase& plan) {
    std::string path = std::move(plan.profile.path);
    const std::vector<GroupCosts> groups = std::move(plan.profile.groups);
    plan.profile = estimate(model, plan.profile.job, device);
    plan.profile.groups = estimate_again(groups, model, plan.profile.job, device);
    if (plan.profile.job.forward_only) plan.profile = forward_costs(std::move(plan.profile), model);
    plan.profile.path = std::move(path);
  };
}

/// As `simulate --set`: of the cluster where there is one, else of the profile.
Change change_link(const std::string& text, const SweepSource& source) {
  const Overrides set({source.key + "=" + text}, sweep_flag);
  Change change = [set](PlanCase& plan) {
    if (plan.cluster) return set.apply(*plan.cluster);
    set.require_no_cluster_keys();
    set.apply(plan.profile);
  };
  PlanCase tried{.profile = {}, .cluster = source.base.cluster, .request = {}};
  tried.profile.links = source.base.profile.links;
  change(tried);
  return change;
}

struct SweepKey {
  const char* name;
  const char* flag;
  const char* in_file;
  bool counts;
  Change (*read)(const std::string& text, const SweepSource& source);
};

constexpr const char* in_job = "a profile of a job (or a table of layers) with that global_batch";
constexpr const char* by_spec = "a profile by --device estimate --spec DEVICE.yaml";
constexpr const char* in_cluster = "a cluster file with such links (--cluster)";

/// In the order in which their changes are made: an estimate is of a batch and makes links anew.
constexpr SweepKey sweep_keys[] = {
    {"ranks", "--ranks", "", true, change_ranks},
    {"memory", "--memory", "", false, change_memory},
    {"global_batch", "", in_job, true, change_batch},
    {"device", "", by_spec, false, change_device},
    {"links.bandwidth", "", in_cluster, false, change_link},
    {"links.latency", "", in_cluster, false, change_link},
    {"network.bandwidth", "", in_cluster, false, change_link},
    {"network.latency", "", in_cluster, false, change_link},
};

const SweepKey& sweep_key(const std::string& name) {
  const std::string full = name == "bandwidth" ? "links.bandwidth" : name;
  std::vector<std::string> known;
  for (const SweepKey& key : sweep_keys) {
    if (key.name == full) return key;
    known.emplace_back(key.name);
  }
  const std::string suggestion = did_you_mean(name, known);
  throw InputError(sweep_flag, fmt::format("there is no key `{}`", name),
                   fmt::format("{}Keys: {}.", suggestion.empty() ? "" : suggestion + " ",
                               fmt::join(known, ", ")));
}

std::vector<std::string> at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

SweepAxis sweep_axis(const std::string& given, const PlanCase& base, const Graph& model) {
  const size_t equals = given.find('=');
  const SweepKey& key = sweep_key(given.substr(0, equals));
  SweepAxis axis{key.name, key.flag, key.in_file, key.counts, static_cast<int>(&key - sweep_keys),
                 {}};
  const SweepSource source{axis.key, base, model};
  const std::string values = equals == std::string::npos ? "" : given.substr(equals + 1);
  for (const std::string& text : at_commas(values)) {
    if (text.empty())
      throw InputError(source.place(), values.empty() ? "no values" : "an empty value",
                       fmt::format("Give some, divided by commas: --sweep {}=V1,V2.", key.name));
    if (std::ranges::find(axis.values, text, &SweepValue::text) != axis.values.end())
      throw InputError(source.place(), fmt::format("{} is given twice", text),
                       "Leave one of them out.");
    axis.values.push_back({text, key.read(text, source)});
  }
  return axis;
}

void check_combinations(const std::vector<SweepAxis>& axes) {
  int64_t rows = 1;
  std::string counts;
  for (const SweepAxis& axis : axes) {
    const auto count = std::ssize(axis.values);
    counts += fmt::format("{}{} of {}", counts.empty() ? "" : " x ", count, axis.key);
    rows *= count;
    if (rows > max_combinations) rows = max_combinations + 1;
  }
  if (rows <= max_combinations) return;
  throw InputError(sweep_flag,
                   fmt::format("{} make more than {} plans, each of which may take some seconds",
                               counts, max_combinations),
                   "Give fewer values.");
}

}  // namespace

std::vector<SweepAxis> sweep_axes(const std::vector<std::string>& given, const PlanCase& base,
                                  const Graph& model) {
  std::vector<SweepAxis> axes;
  for (const std::string& one : given) {
    axes.push_back(sweep_axis(one, base, model));
    if (std::ranges::count(axes, axes.back().key, &SweepAxis::key) > 1)
      throw InputError(fmt::format("{} {}", sweep_flag, axes.back().key), "given twice",
                       "Give all of its values at once, divided by commas.");
  }
  check_combinations(axes);
  return axes;
}

}  // namespace penstock::cli
