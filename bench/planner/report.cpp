#include "bench/planner/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace penstock::bench {

namespace {

std::string number(double value, const char* unit) {
  if (!std::isfinite(value)) return "nothing fits";
  return *unit == '\0' ? fmt::format("{:.9g}", value) : fmt::format("{:.9g} {}", value, unit);
}

}  // namespace

std::string peer_heading() {
  return fmt::format("{:<24} {:<38} {:<48} {:>16} {:>14} {:>10} {:>10}  plan\n", "file",
                     "objective", "setting", "value", "published", "elapsed", "processor");
}

std::string peer_table_line(const PeerRow& row) {
  const PeerResult& result = row.result;
  return fmt::format("{:<24} {:<38} {:<48} {:>16} {:>14} {:>8.3f} s {:>8.3f} s  {}{}\n",
                     std::filesystem::path(row.file).filename().string(),
                     name(row.setting.objective), to_text(row.setting),
                     number(result.value, unit(row.setting.objective)),
                     row.published ? fmt::format("{}", *row.published) : "", result.elapsed_s,
                     result.cpu_s, result.plan, result.exact ? "" : " (limited search)");
}

std::string peer_json_line(const PeerRow& row) {
  nlohmann::ordered_json line{{"file", row.file},
                              {"objective", name(row.setting.objective)},
                              {"setting", to_text(row.setting)},
                              {"unit", unit(row.setting.objective)},
                              {"larger_is_better", larger_is_better(row.setting.objective)}};
  line["value"] = nullptr;
  if (std::isfinite(row.result.value)) line["value"] = row.result.value;
  if (row.published) line["published"] = *row.published;
  line["exact"] = row.result.exact;
  line["plan"] = row.result.plan;
  line["elapsed_s"] = row.result.elapsed_s;
  line["cpu_s"] = row.result.cpu_s;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::bench
