// Generated settings that simulators are compared on and properties are checked on.
#pragma once

#include <string>
#include <vector>

#include "pipeline/program/schedule.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::testing {

struct Setting {
  std::string description;
  Program program;  // lowered
  Costs costs;
  Link link;  // eager
};

/// `count` settings of a schedule, the same for the same arguments. Ranks, stages per rank,
/// microbatches, times, bytes, latency and bandwidth are drawn; the bytes so that moving a message
/// takes from a hundredth of an F to ten of them, evenly on a logarithmic scale. Every other
/// setting has stages and messages that differ, and propagation.
std::vector<Setting> make_settings(const Schedule& schedule, int count, unsigned seed);

}  // namespace penstock::testing
