// A step as one HTML page that needs no network and no other file: the timeline to zoom and to
// hover, and what explains it; and a table of plans as such a page. The pages' own files are in
// simulator/explain/page/ and become part of the program when it is built.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/program/program.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/explain/explain.hpp"

namespace penstock {

/// Something that the page's head tells: `schedule`, `1f1b`.
struct PageFact {
  std::string name, text;
};

/// A simulated step: memory curves, the critical path drawn and listed, where time and memory go.
struct Page {
  std::string title;
  const Program& program;        // lowered
  const Simulation& simulation;  // with timeline and memory
  const Explanation& explanation;
  MemoryLimit memory = {};
  std::vector<PageFact> facts = {};
  std::vector<std::string> modules = {};  // by stage; empty: not known
};

/// A predicted and a measured step of the same actions: one above the other by rank, on one time
/// axis, and the errors by cause (rank_time.hpp).
struct ComparisonPage {
  std::string title;
  const Trace& predicted;  // neither is empty
  const Trace& measured;
};

/// Plans side by side, drawn and listed.
struct SweepPage {
  std::string title, note;             // note: on their costs
  const nlohmann::ordered_json& rows;  // as `plan --sweep --json` prints them
};

/// The page, the same bytes for the same input. Text from outside cannot leave its place in it.
std::string to_html(const Page& page);
std::string to_html(const ComparisonPage& page);
std::string to_html(const SweepPage& page);

}  // namespace penstock
