#include "backend/communication/cause.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace penstock {

namespace {

using Reports = std::map<int, WorkerError>;  // by rank
using Clock = std::chrono::steady_clock;

constexpr const char* kReports = "failures";
constexpr auto kGrace = std::chrono::milliseconds(1500);  // for the other ranks to fail as well
constexpr auto kGlance = std::chrono::milliseconds(20);
constexpr auto kStay = std::chrono::milliseconds(500);  // of rank 0, for others to read

Reports read_reports(const Seat& seat) {
  Reports reports;
  std::istringstream lines(seat.store.get(kReports));
  for (std::string line; std::getline(lines, line);) {
    const WorkerError error = parse_error(nlohmann::json::parse(line));
    reports.emplace(error.rank, error);
  }
  return reports;
}

/// Ranks that others lost and that reported nothing themselves.
std::set<int> silent(const Reports& reports) {
  std::set<int> ranks;
  for (const auto& [rank, error] : reports) {
    if (error.lost >= 0 && !reports.contains(error.lost)) ranks.insert(error.lost);
  }
  return ranks;
}

const WorkerError* failed_by_itself(const Reports& reports) {
  for (const auto& [rank, error] : reports) {
    if (error.kind != FailureKind::peer) return &error;
  }
  return nullptr;
}

/// Waits until all live ranks have reported, one has failed by itself, or time is up.
Reports wait_for_reports(const Seat& seat) {
  const auto end = Clock::now() + kGrace;
  Reports reports = read_reports(seat);
  while (Clock::now() < end && failed_by_itself(reports) == nullptr &&
         (silent(reports).empty() ||
          reports.size() + silent(reports).size() < static_cast<size_t>(seat.size))) {
    std::this_thread::sleep_for(kGlance);
    reports = read_reports(seat);
  }
  return reports;
}

WorkerError conclude(const Reports& reports, WorkerError own, int size) {
  if (const WorkerError* cause = failed_by_itself(reports)) {
    if (cause->rank == own.rank) return own;
    own.kind = cause->kind;
    own.message = fmt::format("rank {} failed {}: {}", cause->rank,
                              place_in_run(cause->step, cause->action), cause->message);
    return own;
  }
  std::set<int> gone = silent(reports), unheard;
  for (int rank = 0; rank < size; ++rank) {
    if (!reports.contains(rank)) unheard.insert(rank);
  }
  if (gone.empty() && unheard.size() == 1) gone = unheard;  // a failed sum names no peer
  if (gone.empty()) return own;
  own.lost = *gone.begin();
  own.message += fmt::format(
      "\n  The cause: rank {} is gone without a word; it was killed, its node "
      "failed, or the network did.",
      fmt::join(gone, " and rank "));
  return own;
}

}  // namespace

WorkerError find_cause(const Seat& seat, const WorkerError& own, int rank_with_store) {
  try {
    seat.store.append(kReports, to_json(own).dump() + "\n");
    const Reports reports = wait_for_reports(seat);
    if (seat.rank == 0) std::this_thread::sleep_for(kStay);
    return conclude(reports, own, seat.size);
  } catch (const std::exception&) {
    WorkerError result = own;
    if (result.kind == FailureKind::peer && seat.rank != 0) {
      result.message +=
          fmt::format("\n  And rank {} is gone, which hosts the store.", rank_with_store);
    }
    return result;
  }
}

}  // namespace penstock
