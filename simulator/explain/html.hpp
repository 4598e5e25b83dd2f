// A simulated step as one HTML page that needs no network and no other file: the timeline to zoom
// and to hover, memory curves, the critical path drawn and listed, where time and memory go. The
// page's own files are in simulator/page/ and become part of the program when it is built.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/program/program.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/explain/explain.hpp"

namespace penstock {

struct Page {
  std::string title;
  const Program& program;        // lowered
  const Simulation& simulation;  // with timeline and memory
  const Explanation& explanation;
  MemoryLimit memory = {};
};

/// The page, the same bytes for the same input. Text from outside cannot leave its place in it.
std::string to_html(const Page& page);

}  // namespace penstock
