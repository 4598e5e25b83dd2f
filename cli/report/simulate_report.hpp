// The report of `penstock simulate`: for people a summary and a drawing, for programs one JSON
// object.
#pragma once

#include <string>

#include "cli/predict/simulate_study.hpp"
#include "cli/report/table.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/explain/explain.hpp"

namespace penstock::cli {

/// Step time, bubble and where it comes from, the rank that limits, and a line per rank. Without an
/// explanation (null: there are too many actions) it says that there is none.
std::string simulation_summary(const Study& study, const Simulation& simulation,
                               const Explanation* explanation, ReportStyle style);

/// One object, one line. `step_s` is there for a plan.
std::string simulation_json(const Study& study, const Simulation& simulation,
                            const Explanation* explanation, bool plan, double elapsed_s);

/// By how much ranks exceed the memory limit, or "".
std::string memory_warning(const Study& study, const Simulation& simulation);

}  // namespace penstock::cli
