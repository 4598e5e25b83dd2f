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
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock {

namespace {

/// A duration, rate, share or amount: none is negative.
double amount(const JsonValue& value, const std::string& key) {
  const double number = value.number(key);
  if (number < 0)
    value.at(key).refuse(fmt::format("{} is negative", number), "Profile the job again.");
  return number;
}

/// An amount for a host that runs ahead of its device; profiles of CPUs have none.
double host_amount(const JsonValue& value, const std::string& key) {
  return value.has(key) ? amount(value, key) : 0;
}

int64_t bytes(const JsonValue& value, const std::string& key) {
  const int64_t number = value.integer(key);
  if (number < 0)
    value.at(key).refuse(fmt::format("{} is negative", number), "Profile the job again.");
  return number;
}

Measured read_measured(const JsonValue& value) {
  return {amount(value, "mean_s"), amount(value, "median_s"), amount(value, "spread_s"),
          value.integer("repetitions", 0, INT32_MAX), host_amount(value, "host_s")};
}

ActionTimes read_times(const JsonValue& value) {
  return {read_measured(value.at("forward")), read_measured(value.at("backward")),
          read_measured(value.at("backward_input")), read_measured(value.at("backward_weight"))};
}

MemoryChange read_change(const JsonValue& value) {
  const MemoryChange change{value.integer("net"), bytes(value, "peak")};
  if (change.net > change.peak) {
    value.at("net").refuse(fmt::format("{} is above the peak, {}", change.net, change.peak),
                           "Profile the job again.");
  }
  return change;
}

HeldBytes read_held(const JsonValue& value) {
  return {bytes(value, "output"), read_change(value.at("forward")),
          read_change(value.at("backward")), read_change(value.at("backward_input")),
          read_change(value.at("backward_weight"))};
}

std::vector<int> read_numbers(const JsonValue& value, const std::string& key) {
  std::vector<int> numbers;
  if (!value.has(key)) return numbers;
  for (const JsonValue& number : value.list(key)) {
    if (number.integer() < 0 || number.integer() > INT32_MAX)
      number.refuse(fmt::format("{} numbers no value", number.integer()), "Profile the job again.");
    numbers.push_back(static_cast<int>(number.integer()));
  }
  return numbers;
}

ValueMemory read_values(const JsonValue& value) {
  ValueMemory memory{read_numbers(value, "keeps"), {}, read_numbers(value, "strided")};
  if (!value.has("shares")) return memory;
  for (const JsonValue& pair : value.list("shares")) {
    memory.shares.emplace_back(pair.integer("output", 0, INT32_MAX),
                               pair.integer("of", 0, INT32_MAX));
  }
  return memory;
}

OperatorCost read_operator(const JsonValue& value) {
  return {value.text("name"),
          value.text("target"),
          value.text("module"),
          amount(value, "flops"),
          bytes(value, "bytes"),
          read_times(value.at("times")),
          read_held(value.at("held_bytes")),
          read_values(value)};
}

/// Factors of a mean of 1, about: one that is above 0 is enough to scale them to it.
std::vector<double> read_factors(const JsonValue& value) {
  std::vector<double> factors;
  double sum = 0;
  for (const JsonValue& factor : value.list()) {
    if (factor.number() < 0)
      factor.refuse(fmt::format("{} is negative", factor.number()), "Profile the job again.");
    sum += factors.emplace_back(factor.number());
  }
  if (sum <= 0) value.refuse("no factor is above 0", "Profile the job again.");
  return factors;
}

ActionJitter read_jitter(const JsonValue& value) {
  return {read_factors(value.at("forward")), read_factors(value.at("backward")),
          read_factors(value.at("backward_input")), read_factors(value.at("backward_weight"))};
}

/// Units cover the operators from 0 on without a gap.
UnitCost read_unit(const JsonValue& value, int begin, int operators) {
  UnitCost unit{value.text("label"), value.integer("begin", begin, begin),
                value.integer("end", begin + 1, operators), read_times(value.at("times")),
                read_held(value.at("held_bytes"))};
  if (value.has("jitter")) unit.jitter = read_jitter(value.at("jitter"));
  return unit;
}

/// Every rank has measured as many, of which variances can be told.
std::vector<std::vector<double>> read_rounds(const JsonValue& value) {
  std::vector<std::vector<double>> rounds;
  for (const JsonValue& rank : value.list()) {
    rounds.push_back(read_factors(rank));
    if (rounds.back().size() >= 2 && rounds.back().size() == rounds.front().size()) continue;
    rank.refuse(fmt::format("{} rounds", rounds.back().size()),
                "Every rank has measured as many, at least two: profile the job again.");
  }
  return rounds;
}

/// All units of a size vary by what was measured, or none does.
void read_noise(const JsonValue& value, MicrobatchCosts& costs) {
  if (value.has("rounds")) costs.rounds = read_rounds(value.at("rounds"));
  for (const UnitCost& unit : costs.units) {
    if (unit.jitter.any() == !costs.rounds.empty()) continue;
    value.refuse(fmt::format("unit `{}` has {}", unit.label,
                             unit.jitter.any() ? "`jitter`, but the size no `rounds`"
                                               : "no `jitter`, but the size has `rounds`"),
                 "Profile the job again.");
  }
}

MicrobatchCosts read_costs(const JsonValue& value) {
  MicrobatchCosts costs;
  costs.microbatch = value.integer("microbatch", 1, INT32_MAX);
  for (const JsonValue& op : value.list("operators")) costs.operators.push_back(read_operator(op));
  const int operators = static_cast<int>(costs.operators.size());
  int begin = 0;
  for (const JsonValue& unit : value.list("units")) {
    costs.units.push_back(read_unit(unit, begin, operators));
    begin = costs.units.back().end;
  }
  if (begin != operators) {
    value.at("units").refuse(fmt::format("the units cover {} of {} operators", begin, operators),
                             "Profile the job again.");
  }
  costs.loss_forward = read_measured(value.at("loss_forward"));
  costs.first_microbatch_excess = value.number("first_microbatch_excess");
  costs.load_batch_s = amount(value, "load_batch_s");
  read_noise(value, costs);
  return costs;
}

std::vector<MicrobatchCosts> read_microbatches(const JsonValue& of) {
  std::vector<MicrobatchCosts> result;
  for (const JsonValue& value : of.list("microbatches")) {
    result.push_back(read_costs(value));
    const bool ascending =
        result.size() < 2 || result[result.size() - 2].microbatch < result.back().microbatch;
    if (ascending) continue;
    value.at("microbatch")
        .refuse(fmt::format("{} does not come after {}", result.back().microbatch,
                            result[result.size() - 2].microbatch),
                "List the microbatch sizes ascending, each once.");
  }
  return result;
}

std::vector<GroupCosts> read_groups(const JsonValue& root) {
  std::vector<GroupCosts> groups;
  if (!root.has("groups")) return groups;
  for (const JsonValue& value : root.list("groups")) {
    GroupCosts& group = groups.emplace_back();
    group.parts = value.integer("tensor_parallel", 2, max_tensor_parallel);
    if (value.has("sharding"))
      group.sharding =
          parse_sharding(yaml_map(value.at("sharding").json(), value.place(), "sharding"));
    group.microbatches = read_microbatches(value);
  }
  return groups;
}

LinkCost read_link(const JsonValue& value) {
  LinkCost link;
  link.kind = value.text("kind");
  link.latency_s = amount(value, "latency_s");
  link.bandwidth = amount(value, "bandwidth_bytes_per_s");
  link.sender_s_per_byte = amount(value, "sender_s_per_byte");
  link.receiver_s_per_byte = amount(value, "receiver_s_per_byte");
  link.residual = amount(value, "residual");
  if (value.has("lane_bytes")) link.lane_bytes = bytes(value, "lane_bytes");
  for (const JsonValue& sample : value.list("samples")) {
    link.samples.emplace_back(bytes(sample, "bytes"), amount(sample, "seconds"));
  }
  return link;
}

DeviceInfo read_device(const JsonValue& value) {
  DeviceInfo device{.kind = value.text("kind"),
                    .name = value.text("name"),
                    .memory_bytes = bytes(value, "memory_bytes"),
                    .threads = value.integer("threads", 1, INT32_MAX)};
  if (value.has("cores")) device.cores = value.integer("cores", 1, INT32_MAX);
  const JsonValue details = value.at("details");
  for (const std::string& key : details.keys()) device.details[key] = details.text(key);
  return device;
}

/// At one of the sizes that were measured.
ReplayCosts read_replays(const JsonValue& value, const Profile& profile) {
  const int64_t microbatch = value.integer("microbatch", 1, INT32_MAX);
  if (!profile.at(microbatch)) {
    value.at("microbatch")
        .refuse(fmt::format("microbatch {} was not measured", microbatch),
                "Profile the job again, or remove `replays`.");
  }
  return {microbatch, read_times(value.at("times"))};
}

void read_rates(const JsonValue& root, Profile& profile) {
  profile.accumulate_s_per_byte = amount(root, "accumulate_s_per_byte");
  profile.optimizer_s_per_byte = amount(root, "optimizer_s_per_byte");
  if (root.has("optimizer_s_per_tensor"))
    profile.optimizer_s_per_tensor = amount(root, "optimizer_s_per_tensor");
  profile.zero_s_per_byte = amount(root, "zero_s_per_byte");
  profile.action_overhead_s = amount(root, "action_overhead_s");
  profile.action_host_s = host_amount(root, "action_host_s");
  profile.hand_off_s_per_byte = amount(root, "hand_off_s_per_byte");
  profile.base_memory_bytes = bytes(root, "base_memory_bytes");
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
  profile.probe = {amount(probe, "gemm_s"), amount(probe, "copy_s"), amount(probe, "spread")};
  profile.microbatches = read_microbatches(root);
  profile.groups = read_groups(root);
  if (root.has("replays")) profile.replays = read_replays(root.at("replays"), profile);
  return profile;
}

}  // namespace penstock
