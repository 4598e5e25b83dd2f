// The report of `penstock simulate`: for people a summary and a drawing, for programs one JSON
// object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/predict/simulate_study.hpp"
#include "cli/report/table.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/explain/explain.hpp"

namespace penstock::cli {

/// What was found out about a study.
struct SimulationResults {
  const Simulation& simulation;
  const Explanation* explanation;              // null: there are too many actions
  const std::optional<SampledSteps>& samples;  // absent: none was asked for
};

/// Step time, what it varies by, bubble and where it comes from, the rank that limits, and a line
/// per rank. Without an explanation it says that there is none.
std::string simulation_summary(const Study& study, const SimulationResults& results,
                               ReportStyle style);

/// One object, one line. `step_s` is there for a plan.
std::string simulation_json(const Study& study, const SimulationResults& results, bool plan,
                            double elapsed_s);

/// `64 samples after 12.1 ms, 5290 samples/s`: of a step that is inference.
std::string describe_inference(int64_t samples, double step_s);

/// `1000 steps with drawn times: mean 34.1 ms, …`
std::string describe(const SampledSteps& samples);
nlohmann::ordered_json to_json(const SampledSteps& samples);

/// By how much ranks exceed the memory limit, or "".
std::string memory_warning(const Study& study, const Simulation& simulation);

}  // namespace penstock::cli
