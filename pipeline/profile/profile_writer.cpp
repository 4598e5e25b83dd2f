// Writes profiles: JSON, an operator or unit per line; of groups without repeating equal costs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "pipeline/profile/profile.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

double finite(double value) {
  if (!std::isfinite(value)) throw std::logic_error("a profile holds a number that is not finite");
  return value;
}

Json json_of(const Measured& measured) {
  Json json = {{"mean_s", finite(measured.mean_s)},
               {"median_s", finite(measured.median_s)},
               {"spread_s", finite(measured.spread_s)},
               {"repetitions", measured.repetitions}};
  if (measured.host_s > 0) json["host_s"] = finite(measured.host_s);
  return json;
}

Json json_of(const ActionTimes& times) {
  return {{"forward", json_of(times.forward)},
          {"backward", json_of(times.backward)},
          {"backward_input", json_of(times.backward_input)},
          {"backward_weight", json_of(times.backward_weight)}};
}

Json json_of(const MemoryChange& change) { return {{"net", change.net}, {"peak", change.peak}}; }

Json json_of(const HeldBytes& held) {
  return {{"output", held.output},
          {"forward", json_of(held.forward)},
          {"backward", json_of(held.backward)},
          {"backward_input", json_of(held.backward_input)},
          {"backward_weight", json_of(held.backward_weight)}};
}

void add_costs(Json& json, const OperatorCost& op) {
  json["flops"] = finite(op.flops);
  json["bytes"] = op.bytes;
  json["times"] = json_of(op.times);
  json["held_bytes"] = json_of(op.held);
  if (!op.values.keeps.empty()) json["keeps"] = op.values.keeps;
  for (const auto& [output, of] : op.values.shares)
    json["shares"].push_back({{"output", output}, {"of", of}});
  if (!op.values.strided.empty()) json["strided"] = op.values.strided;
}

/// Five digits are more than any factor is known to.
Json json_of(const std::vector<double>& factors) {
  Json list = Json::array();
  for (const double factor : factors) list.push_back(std::round(finite(factor) * 1e5) / 1e5);
  return list;
}

Json json_of(const ActionJitter& jitter) {
  return {{"forward", json_of(jitter.forward)},
          {"backward", json_of(jitter.backward)},
          {"backward_input", json_of(jitter.backward_input)},
          {"backward_weight", json_of(jitter.backward_weight)}};
}

void add_costs(Json& json, const UnitCost& unit) {
  json["times"] = json_of(unit.times);
  json["held_bytes"] = json_of(unit.held);
  if (unit.jitter.any()) json["jitter"] = json_of(unit.jitter);
}

Json json_of(const LinkCost& link) {
  Json samples = Json::array();
  for (const auto& [bytes, seconds] : link.samples) {
    samples.push_back({{"bytes", bytes}, {"seconds", finite(seconds)}});
  }
  return {{"kind", link.kind},
          {"latency_s", finite(link.latency_s)},
          {"bandwidth_bytes_per_s", finite(link.bandwidth)},
          {"sender_s_per_byte", finite(link.sender_s_per_byte)},
          {"receiver_s_per_byte", finite(link.receiver_s_per_byte)},
          {"residual", finite(link.residual)},
          {"lane_bytes", link.lane_bytes},
          {"samples", std::move(samples)}};
}

Json json_of(const DeviceInfo& device) {
  Json details = Json::object();
  for (const auto& [key, value] : device.details) details[key] = value;
  Json json{{"kind", device.kind},
            {"name", device.name},
            {"memory_bytes", device.memory_bytes},
            {"threads", device.threads}};
  if (device.cores > 0) json["cores"] = device.cores;
  json["details"] = std::move(details);
  return json;
}

/// Everything but the costs of the microbatch sizes.
Json head(const Profile& profile, const std::filesystem::path& file) {
  Json links = Json::array();
  for (const LinkCost& link : profile.links) links.push_back(json_of(link));
  Json json{{"penstock", "profile"},
            {"version", profile_version},
            {"job", job_keys(profile.job, file)},
            {"model_sha256", profile.model_sha256},
            {"device", json_of(profile.device)},
            {"accumulate_s_per_byte", finite(profile.accumulate_s_per_byte)},
            {"optimizer_s_per_byte", finite(profile.optimizer_s_per_byte)},
            {"optimizer_s_per_tensor", finite(profile.optimizer_s_per_tensor)},
            {"zero_s_per_byte", finite(profile.zero_s_per_byte)},
            {"action_overhead_s", finite(profile.action_overhead_s)},
            {"action_host_s", finite(profile.action_host_s)},
            {"base_memory_bytes", profile.base_memory_bytes},
            {"links", std::move(links)},
            {"probe",
             {{"gemm_s", finite(profile.probe.gemm_s)},
              {"copy_s", finite(profile.probe.copy_s)},
              {"spread", finite(profile.probe.spread)}}}};
  for (const ReplayCosts& replay : profile.replays)
    json["replays"].push_back(
        {{"microbatch", replay.microbatch}, {"times", json_of(replay.times)}});
  return json;
}

/// Text of device names and paths may hold any bytes; JSON holds UTF-8.
std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json names(const OperatorCost& op) {
  return {{"name", op.name}, {"target", op.target}, {"module", op.module}};
}

Json names(const UnitCost& unit) {
  return {{"label", unit.label}, {"begin", unit.begin}, {"end", unit.end}};
}

bool equal_costs(const OperatorCost& one, const OperatorCost& other) {
  return one.flops == other.flops && one.bytes == other.bytes && one.times == other.times &&
         one.held == other.held && one.values == other.values;
}

bool equal_costs(const UnitCost& one, const UnitCost& other) {
  return one.times == other.times && one.held == other.held && one.jitter == other.jitter;
}

/// Hashes times and bytes that hardly two entries of other costs have together.
template <typename Cost>
size_t hash(const Cost& entry) {
  size_t mixed = 0;
  for (const double time : {entry.times.forward.mean_s, entry.times.backward.mean_s})
    mixed = mixed * 31 + std::hash<double>()(time);
  for (const int64_t bytes : {entry.held.output, entry.held.forward.net, entry.held.backward.peak})
    mixed = mixed * 31 + std::hash<int64_t>()(bytes);
  return mixed;
}

/// For each entry an earlier one of equal costs, or itself.
template <typename Cost>
std::vector<size_t> first_equals(const std::vector<Cost>& entries) {
  std::unordered_multimap<size_t, size_t> known;
  std::vector<size_t> firsts;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto [begin, end] = known.equal_range(hash(entries[i]));
    const auto same = std::find_if(
        begin, end, [&](const auto& one) { return equal_costs(entries[one.second], entries[i]); });
    firsts.push_back(same == end ? i : same->second);
    if (same == end) known.emplace(hash(entries[i]), i);
  }
  return firsts;
}

/// `[` entry `,` entry … `]`, an entry per line.
template <typename Cost>
std::string lines(const std::vector<Cost>& entries) {
  std::string text = "[";
  for (const Cost& entry : entries) {
    Json json = names(entry);
    add_costs(json, entry);
    text += (text.size() > 1 ? ",\n" : "\n") + text_of(json);
  }
  return text + "]";
}

/// Entries without the names that `named` has; in place of costs that an earlier entry has, its
/// number.
template <typename Cost>
std::string short_lines(const std::vector<Cost>& entries, const std::vector<Cost>& named) {
  const std::vector<size_t> firsts = first_equals(entries);
  std::string text = "[";
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool known =
        &named != &entries && i < named.size() && names(named[i]) == names(entries[i]);
    Json json = known ? Json::object() : names(entries[i]);
    if (firsts[i] == i)
      add_costs(json, entries[i]);
    else
      json["same_as"] = firsts[i];
    text += (i > 0 ? ",\n" : "\n") + text_of(json);
  }
  return text + "]";
}

/// Up to the lists of units and operators.
std::string head_of(const MicrobatchCosts& costs) {
  Json scalars = {{"microbatch", costs.microbatch},
                  {"loss_forward", json_of(costs.loss_forward)},
                  {"first_microbatch_excess", finite(costs.first_microbatch_excess)},
                  {"load_batch_s", finite(costs.load_batch_s)}};
  for (const std::vector<double>& rank : costs.rounds) scalars["rounds"].push_back(json_of(rank));
  std::string text = text_of(scalars);
  text.back() = ',';  // for the closing brace
  return text + "\n";
}

std::string text_of(const MicrobatchCosts& costs) {
  return head_of(costs) + "\"units\": " + lines(costs.units) +
         ",\n\"operators\": " + lines(costs.operators) + "}";
}

/// A group's are many, and mostly repeat each other.
std::string short_text_of(const MicrobatchCosts& costs, const MicrobatchCosts& first) {
  return head_of(costs) + "\"units\": " + short_lines(costs.units, first.units) +
         ",\n\"operators\": " + short_lines(costs.operators, first.operators) + "}";
}

template <typename Text>
std::string sizes_text(const std::vector<MicrobatchCosts>& sizes, const Text& text_of_size) {
  std::string text = "\"microbatches\": [";
  for (const MicrobatchCosts& costs : sizes)
    text += (text.ends_with('[') ? "\n" : ",\n") + text_of_size(costs);
  return text + "]";
}

std::string text_of(const std::vector<MicrobatchCosts>& sizes) {
  return sizes_text(sizes, [](const MicrobatchCosts& costs) { return text_of(costs); });
}

std::string short_text_of(const std::vector<MicrobatchCosts>& sizes) {
  return sizes_text(
      sizes, [&](const MicrobatchCosts& costs) { return short_text_of(costs, sizes.front()); });
}

/// Lists of one pin each: readers of JSON do not keep the order of keys, which counts.
Json json_of(const sharding::Pins& pins) {
  Json sharding = sharding_keys(pins);
  for (const char* kind : {"parameters", "values"}) {
    if (!sharding.contains(kind)) continue;
    Json lists = Json::array();
    for (const auto& [pattern, layout] : sharding[kind].items())
      lists.push_back({{pattern, layout}});
    sharding[kind] = std::move(lists);
  }
  return sharding;
}

std::string text_of(const std::vector<GroupCosts>& groups) {
  std::string text = "\"groups\": [";
  for (const GroupCosts& group : groups) {
    Json scalars = {{"tensor_parallel", group.parts}};
    if (group.sharding != sharding::Pins()) scalars["sharding"] = json_of(group.sharding);
    std::string head = text_of(scalars);
    head.back() = ',';  // for the closing brace
    text += (text.ends_with('[') ? "\n" : ",\n") + head + "\n" + short_text_of(group.microbatches) +
            "}";
  }
  return text + "]";
}

}  // namespace

std::string to_json(const Profile& profile, const std::filesystem::path& file) {
  const Json first = head(profile, file);
  std::string text = "{";
  for (const auto& [key, value] : first.items()) {
    text += text_of(Json(key)) + ": " + text_of(value) + ",\n";
  }
  text += text_of(profile.microbatches);
  if (!profile.groups.empty()) text += ",\n" + text_of(profile.groups);
  return text + "}\n";
}

}  // namespace penstock
