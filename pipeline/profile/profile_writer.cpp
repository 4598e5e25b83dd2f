// Writes profiles: JSON, an operator or unit per line.
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

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

Json json_of(const OperatorCost& op) {
  Json json = {{"name", op.name},
               {"target", op.target},
               {"module", op.module},
               {"flops", finite(op.flops)},
               {"bytes", op.bytes},
               {"times", json_of(op.times)},
               {"held_bytes", json_of(op.held)}};
  if (!op.values.keeps.empty()) json["keeps"] = op.values.keeps;
  for (const auto& [output, of] : op.values.shares)
    json["shares"].push_back({{"output", output}, {"of", of}});
  if (!op.values.strided.empty()) json["strided"] = op.values.strided;
  return json;
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

Json json_of(const UnitCost& unit) {
  Json json = {{"label", unit.label},
               {"begin", unit.begin},
               {"end", unit.end},
               {"times", json_of(unit.times)},
               {"held_bytes", json_of(unit.held)}};
  if (unit.jitter.any()) json["jitter"] = json_of(unit.jitter);
  return json;
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
            {"hand_off_s_per_byte", finite(profile.hand_off_s_per_byte)},
            {"base_memory_bytes", profile.base_memory_bytes},
            {"links", std::move(links)},
            {"probe",
             {{"gemm_s", finite(profile.probe.gemm_s)},
              {"copy_s", finite(profile.probe.copy_s)},
              {"spread", finite(profile.probe.spread)}}}};
  if (profile.replays) {
    json["replays"] = {{"microbatch", profile.replays->microbatch},
                       {"times", json_of(profile.replays->times)}};
  }
  return json;
}

/// Text of device names and paths may hold any bytes; JSON holds UTF-8.
std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `[` entry `,` entry … `]`, an entry per line.
template <typename Costs>
std::string lines(const std::vector<Costs>& entries) {
  std::string text = "[";
  for (const Costs& entry : entries)
    text += (text.size() > 1 ? ",\n" : "\n") + text_of(json_of(entry));
  return text + "]";
}

std::string text_of(const MicrobatchCosts& costs) {
  Json scalars = {{"microbatch", costs.microbatch},
                  {"loss_forward", json_of(costs.loss_forward)},
                  {"first_microbatch_excess", finite(costs.first_microbatch_excess)},
                  {"load_batch_s", finite(costs.load_batch_s)}};
  for (const std::vector<double>& rank : costs.rounds) scalars["rounds"].push_back(json_of(rank));
  std::string text = text_of(scalars);
  text.back() = ',';  // for the closing brace
  return text + "\n\"units\": " + lines(costs.units) +
         ",\n\"operators\": " + lines(costs.operators) + "}";
}

std::string text_of(const std::vector<MicrobatchCosts>& sizes) {
  std::string text = "\"microbatches\": [";
  for (const MicrobatchCosts& costs : sizes)
    text += (text.ends_with('[') ? "\n" : ",\n") + text_of(costs);
  return text + "]";
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
    text += (text.ends_with('[') ? "\n" : ",\n") + head + "\n" + text_of(group.microbatches) + "}";
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
