// A profile in which every member is set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "pipeline/profile/profile.hpp"

namespace penstock {

/// Numbers that no short decimal fraction equals, all different.
class Numbers {
 public:
  double real() { return 1. / (3 + next_++); }
  int64_t bytes() { return (int64_t{1} << 40) + next_++; }
  Measured measured() { return {real(), real(), real(), next_++, real()}; }
  ActionTimes times() { return {measured(), measured(), measured(), measured()}; }
  MemoryChange change() {
    const int64_t net = -bytes();
    return {net, bytes()};
  }
  HeldBytes held() { return {bytes(), change(), change(), change(), change()}; }
  ValueMemory values() { return {{0, 2}, {{3, 1}}, {2}}; }

 private:
  int next_ = 0;
};

inline Profile example_profile(const std::filesystem::path& folder) {
  Numbers next;
  Profile profile;
  profile.path = (folder / "profile.json").string();
  profile.job.model = (folder / "m.pt2").string();
  profile.job.loss = Loss::mse;
  profile.job.optimizer = {.kind = OptimizerSpec::Kind::adamw, .learning_rate = next.real()};
  profile.job.data = {(folder / "null").string(), (folder / "3").string()};
  profile.job.sequence = 16;
  profile.job.global_batch = 8;
  profile.job.seed = INT64_MAX;
  profile.model_sha256 = std::string(64, 'c');
  profile.device = {.kind = "cpu",
                    .name = "Some \"CPU\"",
                    .memory_bytes = next.bytes(),
                    .threads = 2,
                    .cores = 4,
                    .details = {{"clock", "3 GHz"}, {"a/b", "~"}}};
  for (const int64_t size : {1, 4}) {
    MicrobatchCosts costs{.microbatch = size};
    for (const char* name : {"linear", "relu", "mul"}) {
      costs.operators.push_back({name, "aten::x", "layers.0", next.real(), next.bytes(),
                                 next.times(), next.held(), next.values()});
    }
    costs.units.push_back({"layers.0", 0, 2, next.times(), next.held()});
    costs.units.push_back({"mul", 2, 3, next.times(), next.held()});
    costs.loss_forward = next.measured();
    costs.first_microbatch_excess = -next.real();
    costs.load_batch_s = next.real();
    costs.rounds = {{0.9, 1.1}, {1.12345, 0.87655}};
    for (UnitCost& unit : costs.units) unit.jitter = {{0.5, 1.5}, {0, 2}, {1}, {0.99999, 1.00001}};
    profile.microbatches.push_back(costs);
  }
  profile.replays = {{1, next.times()}, {4, next.times()}};
  profile.accumulate_s_per_byte = next.real() * 1e-12;
  profile.optimizer_s_per_byte = next.real() * 1e-12;
  profile.optimizer_s_per_tensor = next.real();
  profile.zero_s_per_byte = next.real() * 1e-300;
  profile.action_overhead_s = next.real();
  profile.action_host_s = next.real();
  profile.base_memory_bytes = next.bytes();
  profile.links.push_back({"gloo",
                           next.real(),
                           1e9 / 3,
                           next.real(),
                           next.real(),
                           next.real(),
                           0,
                           {{4, next.real()}, {1 << 24, next.real()}}});
  profile.links.back().lane_bytes = next.bytes();
  profile.links.push_back({"local", 0, 1e300, 0, 0, 0, 0, {}});
  profile.probe = {next.real(), next.real(), next.real()};
  return profile;
}

}  // namespace penstock
