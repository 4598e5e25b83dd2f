// Reads profiles.
#include "pipeline/profile/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/paths.hpp"
#include "base/yaml.hpp"
#include "pipeline/profile/costs_reader.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock {

namespace {

std::vector<GroupCosts> read_groups(const JsonValue& root) {
  std::vector<GroupCosts> groups;
  if (!root.has("groups")) return groups;
  for (const JsonValue& value : root.list("groups")) {
    GroupCosts& group = groups.emplace_back();
    group.parts = value.integer("tensor_parallel", 2, max_tensor_parallel);
    if (value.has("sharding"))
      group.sharding =
          parse_sharding(yaml_map(value.at("sharding").json(), value.place(), "sharding"));
    group.microbatches = read_microbatches(value, /*repeats=*/true);
  }
  return groups;
}

LinkCost read_link(const JsonValue& value) {
  LinkCost link;
  link.kind = value.text("kind");
  link.latency_s = read_amount(value, "latency_s");
  link.bandwidth = read_amount(value, "bandwidth_bytes_per_s");
  link.sender_s_per_byte = read_amount(value, "sender_s_per_byte");
  link.receiver_s_per_byte = read_amount(value, "receiver_s_per_byte");
  link.residual = read_amount(value, "residual");
  if (value.has("lane_bytes")) link.lane_bytes = read_bytes(value, "lane_bytes");
  for (const JsonValue& sample : value.list("samples")) {
    link.samples.emplace_back(read_bytes(sample, "bytes"), read_amount(sample, "seconds"));
  }
  return link;
}

DeviceInfo read_device(const JsonValue& value) {
  DeviceInfo device{.kind = value.text("kind"),
                    .name = value.text("name"),
                    .memory_bytes = read_bytes(value, "memory_bytes"),
                    .threads = value.integer("threads", 1, INT32_MAX)};
  if (value.has("cores")) device.cores = value.integer("cores", 1, INT32_MAX);
  const JsonValue details = value.at("details");
  for (const std::string& key : details.keys()) device.details[key] = details.text(key);
  return device;
}

/// At sizes that were measured without, too.
std::vector<ReplayCosts> read_replays(const JsonValue& root, const Profile& profile) {
  std::vector<ReplayCosts> replays;
  if (!root.has("replays")) return replays;
  for (const JsonValue& value : root.list("replays")) {
    const int64_t microbatch = value.integer("microbatch", 1, INT32_MAX);
    const auto refuse = [&](const std::string& problem) {
      value.at("microbatch").refuse(problem, "Profile the job again, or remove `replays`.");
    };
    if (!profile.at(microbatch)) refuse(fmt::format("microbatch {} was not measured", microbatch));
    if (!replays.empty() && replays.back().microbatch >= microbatch)
      refuse(fmt::format("{} does not come after {}", microbatch, replays.back().microbatch));
    replays.push_back({microbatch, read_times(value.at("times"))});
  }
  return replays;
}

void read_rates(const JsonValue& root, Profile& profile) {
  profile.accumulate_s_per_byte = read_amount(root, "accumulate_s_per_byte");
  profile.optimizer_s_per_byte = read_amount(root, "optimizer_s_per_byte");
  if (root.has("optimizer_s_per_tensor"))
    profile.optimizer_s_per_tensor = read_amount(root, "optimizer_s_per_tensor");
  profile.zero_s_per_byte = read_amount(root, "zero_s_per_byte");
  profile.action_overhead_s = read_amount(root, "action_overhead_s");
  profile.action_host_s = read_host_amount(root, "action_host_s");
  profile.base_memory_bytes = read_bytes(root, "base_memory_bytes");
}

}  // namespace

void HeldSums::add(const HeldBytes& later) {
  forward = forward.then(later.forward);
  backward = later.backward.then(backward);
  backward_input = later.backward_input.then(backward_input);
  backward_weight = later.backward_weight.then(backward_weight);
}

bool MicrobatchCosts::knows_split_backward() const {
  return std::ranges::all_of(operators, [](const OperatorCost& op) {
    const ActionTimes& times = op.times;
    return times.backward.mean_s == 0 || times.backward_input.mean_s > 0 ||
           times.backward_weight.mean_s > 0;
  });
}

WorkSeconds MicrobatchCosts::whole(Measured ActionTimes::*action) const {
  WorkSeconds sum;
  for (const UnitCost& unit : units)
    sum = sum + WorkSeconds{(unit.times.*action).mean_s, (unit.times.*action).host_s};
  if (action != &ActionTimes::forward) return sum;
  return sum + WorkSeconds{loss_forward.mean_s, loss_forward.host_s};
}

WorkSeconds MicrobatchCosts::pass() const {
  return whole(&ActionTimes::forward) + whole(&ActionTimes::backward);
}

const MicrobatchCosts* Profile::at(int64_t microbatch) const {
  const auto found = std::ranges::find(microbatches, microbatch, &MicrobatchCosts::microbatch);
  return found == microbatches.end() ? nullptr : &*found;
}

Job read_profile_job(const std::filesystem::path& path) {
  const std::string file = path.string();
  const nlohmann::json document = parse_json(read_file(path), file, "job");
  return parse_job(yaml_map(JsonValue(document, file).at("job").json(), file, "job"), path);
}

Profile read_profile(const std::filesystem::path& path) {
  const nlohmann::json document = read_json(path);
  const std::string file = path.string();
  const JsonValue root(document, file);
  if (!root.has("penstock") || document["penstock"] != "profile") {
    root.refuse("not a profile", "Write one with `penstock profile JOB.yaml -o PROFILE.json`.");
  }
  require_version(root, profile_version);
  Profile profile;
  profile.path = file;
  profile.job = parse_job(yaml_map(root.at("job").json(), file, "job"), path);
  profile.model_sha256 = root.text("model_sha256");
  profile.device = read_device(root.at("device"));
  read_rates(root, profile);
  for (const JsonValue& link : root.list("links")) profile.links.push_back(read_link(link));
  const JsonValue probe = root.at("probe");
  profile.probe = {read_amount(probe, "gemm_s"), read_amount(probe, "copy_s"),
                   read_amount(probe, "spread")};
  profile.microbatches = read_microbatches(root, /*repeats=*/false);
  profile.groups = read_groups(root);
  profile.replays = read_replays(root, profile);
  return profile;
}

}  // namespace penstock
