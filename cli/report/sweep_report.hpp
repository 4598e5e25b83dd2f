// What a sweep of plans prints, and its page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/predict/sweep.hpp"
#include "cli/report/table.hpp"

namespace penstock::cli {

/// How the sweep was asked for.
struct SweepQuestion {
  std::string costs;               // the profile or table
  std::string note;                // on these costs; "" for measured ones
  std::vector<std::string> flags;  // of `plan` and their values, beside the sweep's own
};

/// A row for each plan, then what is fastest and cheapest, and why the other rows have none.
/// `verbose`: also the bounds. Ends with a newline.
std::string sweep_report(const Sweep& sweep, const SweepQuestion& question, ReportStyle style);

/// The command that writes the plan of a row, where flags say all of it; "" where its values belong
/// into files.
std::string row_command(const Sweep& sweep, const SweepRow& row, const SweepQuestion& question);

/// docs/planning.md describes it.
nlohmann::ordered_json sweep_json(const Sweep& sweep, const SweepQuestion& question);

}  // namespace penstock::cli
