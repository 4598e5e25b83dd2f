// Programs and costs that the simulator's tests are built from. Times are multiples of 1/64 s, so
// that sums of them are exact and results are compared for equality.
#pragma once

#include <string>
#include <vector>

#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock::testing {

/// A program from rows of `0F0 0SEND_F0 …`.
inline Program rows(const std::string& text) {
  std::string csv;
  for (const char c : text) csv += c == ' ' ? ',' : c;
  return parse_csv(csv, "test");
}

inline Program lowered(const Schedule& schedule, int ranks, int microbatches) {
  return lower(schedule.generate({.ranks = ranks, .microbatches = microbatches}),
               chain_flows(ranks));
}

/// Equal stages of a chain.
inline Costs chain_costs(int stages, double forward_s, double backward_s, int64_t bytes = 0) {
  return equal_stages(stages, {.forward_s = forward_s, .backward_s = backward_s},
                      chain_flows(stages), bytes);
}

/// `rank action start end` per line, as a reader would write a golden timeline.
std::string print(const Timeline& timeline);

}  // namespace penstock::testing
