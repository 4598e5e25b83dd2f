// `--set KEY=VALUE`: what a simulation takes instead of what the plan, its cluster or its profile
// say. Keys are named as in those files, and their values are read alike.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::cli {

class Overrides {
 public:
  Overrides() = default;
  /// Takes `KEY=VALUE`s of a flag, which messages name. Throws InputError for another form, an
  /// unknown key, a key given twice.
  explicit Overrides(const std::vector<std::string>& given, std::string flag = "--set");

  // Each takes the place of the keys that belong there and throws InputError, place `--set KEY`,
  // for a value that does not parse or does not fit.

  /// `schedule` (also instead of a program), `microbatches` of the same global batch, and
  /// `optimizer_state`.
  void apply(Plan& plan) const;
  /// `links.…`: of every link between ranks.
  void apply(Profile& profile) const;
  /// `links.…`: of the link between ranks, or between devices of a node; `network.…`: between
  /// nodes, of which there have to be some.
  void apply(Cluster& cluster) const;
  /// `speed`: how many times as fast devices compute.
  void apply(Costs& costs) const;
  /// Throws InputError for a key of clusters where there is none.
  void require_no_cluster_keys() const;

  /// `links.bandwidth=10GB/s, speed=2`; "" where nothing is overridden.
  std::string text() const;

 private:
  std::string flag_of(const std::string& key) const;
  const std::string* find(const std::string& key) const;
  void apply_link(double& latency_s, double& bandwidth) const;

  std::string flag_ = "--set";
  std::map<std::string, std::string> values_;
};

}  // namespace penstock::cli
