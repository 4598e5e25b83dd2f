#include "cli/inputs/overrides.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "pipeline/job/batch.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock::cli {

namespace {

constexpr const char* key_schedule = "schedule";
constexpr const char* key_microbatches = "microbatches";
constexpr const char* key_optimizer_state = "optimizer_state";
constexpr const char* key_speed = "speed";
constexpr const char* key_links_latency = "links.latency";
constexpr const char* key_links_bandwidth = "links.bandwidth";
constexpr const char* key_network_latency = "network.latency";
constexpr const char* key_network_bandwidth = "network.bandwidth";

const std::vector<std::string> override_keys = {
    key_schedule,      key_microbatches,    key_optimizer_state, key_speed,
    key_links_latency, key_links_bandwidth, key_network_latency, key_network_bandwidth};

[[noreturn]] void refuse_key(const std::string& flag, const std::string& key) {
  const std::string suggestion =
      key == "memory" ? "Give --memory BYTES." : did_you_mean(key, override_keys);
  throw InputError(flag, fmt::format("there is no key `{}`", key),
                   fmt::format("{}Keys: {}.", suggestion.empty() ? "" : suggestion + " ",
                               fmt::join(override_keys, ", ")));
}

}  // namespace

Overrides::Overrides(const std::vector<std::string>& given, std::string flag)
    : flag_(std::move(flag)) {
  for (const std::string& word : given) {
    const size_t end = word.find('=');
    const std::string key = word.substr(0, end);
    if (std::ranges::find(override_keys, key) == override_keys.end()) refuse_key(flag_, key);
    if (end == std::string::npos || end + 1 == word.size())
      throw InputError(flag_of(key), "no value", fmt::format("Give one: {} {}=VALUE.", flag_, key));
    if (values_.emplace(key, word.substr(end + 1)).second) continue;
    throw InputError(flag_of(key), "given twice", "Leave one of them out.");
  }
}

std::string Overrides::flag_of(const std::string& key) const { return flag_ + " " + key; }

const std::string* Overrides::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void Overrides::apply(Plan& plan) const {
  if (const std::string* name = find(key_schedule)) {
    check_schedule(*name, flag_of(key_schedule));
    plan.schedule = *name;
    plan.program.clear();
  }
  if (const std::string* count = find(key_microbatches)) {
    plan.microbatches =
        parse_number(*count, flag_of(key_microbatches), int64_t{1}, max_microbatches);
    plan.microbatch =
        std::max<int64_t>(1, plan.job.global_batch / (plan.data_parallel * plan.microbatches));
    check_batch({plan.job.global_batch, plan.data_parallel, plan.microbatches, plan.microbatch},
                flag_of(key_microbatches));
  }
  if (const std::string* state = find(key_optimizer_state))
    plan.optimizer_state = optimizer_state(*state, flag_of(key_optimizer_state), plan);
}

void Overrides::apply_link(double& latency_s, double& bandwidth) const {
  if (const std::string* text = find(key_links_latency))
    latency_s = parse_seconds(*text, flag_of(key_links_latency));
  if (const std::string* text = find(key_links_bandwidth))
    bandwidth = parse_bandwidth(*text, flag_of(key_links_bandwidth));
}

void Overrides::apply(Profile& profile) const {
  for (LinkCost& link : profile.links) apply_link(link.latency_s, link.bandwidth);
}

void Overrides::apply(Cluster& cluster) const {
  if (cluster.nodes.empty()) {
    require_no_cluster_keys();
    return apply_link(cluster.link.latency_s, cluster.link.bandwidth);
  }
  for (NodeKind& node : cluster.nodes) {
    apply_link(node.latency_s, node.bandwidth);
    if (const std::string* text = find(key_network_bandwidth))
      node.card_bandwidth = parse_bandwidth(*text, flag_of(key_network_bandwidth));
  }
  if (const std::string* text = find(key_network_latency))
    cluster.between.latency_s = parse_seconds(*text, flag_of(key_network_latency));
}

void Overrides::apply(Costs& costs) const {
  const std::string* text = find(key_speed);
  if (text == nullptr) return;
  const double times = parse_number(*text, flag_of(key_speed), min_speed, max_speed);
  for (StageCosts& stage : costs.stages) speed_up(stage, times);
}

void Overrides::require_no_cluster_keys() const {
  for (const char* key : {key_network_latency, key_network_bandwidth}) {
    if (!find(key)) continue;
    throw InputError(flag_of(key), "is between nodes, and there are none",
                     "Name a cluster of nodes with --cluster, or set that of `links`.");
  }
}

std::string Overrides::text() const {
  std::vector<std::string> list;
  for (const auto& [key, value] : values_) list.push_back(key + "=" + value);
  return fmt::format("{}", fmt::join(list, ", "));
}

}  // namespace penstock::cli
