#include "cli/workers/failure.hpp"

#include <algorithm>

namespace penstock::cli {

const Failure& root_cause(const std::vector<Failure>& failures) {
  const auto own = std::ranges::find_if_not(failures, lost_peer);
  return own == failures.end() ? failures.front() : *own;
}

RankFailure rank_failure(const Failure& failure) {
  const WorkerError& place = failure.place;
  return {.rank = place.rank,
          .step = place.step,
          .action = place.action,
          .killed = failure.killed,
          .final = place.kind == FailureKind::input || place.kind == FailureKind::final,
          .standstill = failure.standstill};
}

nlohmann::json to_json(const Failure& failure) {
  return {{"place", to_json(failure.place)},
          {"text", failure.text},
          {"killed", failure.killed},
          {"standstill", failure.standstill}};
}

Failure parse_failure(const nlohmann::json& json) {
  return {parse_error(json.at("place")), json.at("text").get<std::string>(),
          json.at("killed").get<bool>(), json.at("standstill").get<bool>()};
}

nlohmann::json untold_end(const std::string& message) {
  return {{"tell", "end"},
          {"status", 1},
          {"message", message},
          {"place", to_json(WorkerError())},
          {"told", false}};
}

}  // namespace penstock::cli
