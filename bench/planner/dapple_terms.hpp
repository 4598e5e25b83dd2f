// Parts of DAPPLE's objective that its search bounds plans with. Devices are counts per machine.
#pragma once

#include <vector>

#include "bench/planner/dapple.hpp"

namespace penstock::bench {

int device_count(const std::vector<int>& devices);
double transfer_s(const std::vector<int>& from, const std::vector<int>& to, double bytes);
double all_reduce_s(const std::vector<int>& devices, double bytes);
double stage_reduce_s(const DappleModel& model, const DappleSetting& setting,
                      const DappleStage& stage);

enum class Policy { fresh_first, append_first, scatter_first };

/// Adds `need` devices to `taken`, beside those `used` before; false where the policy has too few.
bool take(const std::vector<int>& machines, const std::vector<int>& used, int need, Policy policy,
          std::vector<int>& taken);

}  // namespace penstock::bench
