// Parts of DAPPLE's objective that its search bounds plans with. Devices are counts per machine.
#pragma once

#include <vector>

#include "bench/planner/dapple/dapple.hpp"

namespace penstock::bench {

int device_count(const std::vector<int>& devices);
double transfer_s(const std::vector<int>& from, const std::vector<int>& to, double bytes);
double all_reduce_s(const std::vector<int>& devices, double bytes);
double stage_reduce_s(const DappleModel& model, const DappleSetting& setting,
                      const DappleStage& stage);

}  // namespace penstock::bench
