// The first part of rendezvous.hpp. Keys in the store:
//   handshake/<rank>    a rank's statement, {"facts": …, "machine": …} or {"refuses": message}
//   handshake/refused   also set by a rank that refuses, so that nobody waits for the others
//   handshake/verdict   rank 0's: its own facts, what is wrong or "", and whether a rank is missing
//   handshake/heard/<rank>   the rank has read the verdict: rank 0, which hosts the store, may end
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/communication/communicator.hpp"
#include "backend/communication/rendezvous.hpp"
#include "base/error.hpp"

namespace penstock {

namespace {

using nlohmann::json;
using Statements = std::map<int, json>;  // by rank

constexpr double kPoll_s = 0.1;     // between looks for a refusal
constexpr double kVerdict_s = 5;    // for the others to read the verdict
constexpr double kLateness_s = 30;  // by which rank 0 may be later than this rank
constexpr const char* kCure =
    "Start all ranks with the same files, the same flags and the same version of Penstock.";
constexpr const char* kMachineByMachine =
    "Have the launcher number them machine by machine: mpirun --map-by slot, mpiexec -ppn N, srun "
    "--distribution=block.";

class Deadline {
 public:
  explicit Deadline(double seconds) : end_(Clock::now() + std::chrono::duration<double>(seconds)) {}
  double left_s() const {
    return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
  }
  bool passed() const { return left_s() == 0; }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::time_point<Clock, std::chrono::duration<double>> end_;
};

std::string statement_key(int rank) { return fmt::format("handshake/{}", rank); }
std::string heard_key(int rank) { return fmt::format("handshake/heard/{}", rank); }

/// `rank 2`, `ranks 0-3, 5`.
std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      parts.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k) parts.push_back(std::to_string(ranks[k]));
    }
    i = end;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(parts, ", "));
}

/// On rank 0: the statements of the ranks that come in time, until one refuses.
Statements collect_statements(const Seat& seat, double timeout_s) {
  const Deadline deadline(timeout_s);
  Statements statements;
  bool refused = false;
  for (int rank = 0; rank < seat.size; ++rank) {
    do {
      // Asked before the statement is looked for: a rank that refuses says why before it sets this.
      refused = refused || seat.store.get_within("handshake/refused", 0);
      if (const auto text = seat.store.get_within(statement_key(rank), refused ? 0 : kPoll_s)) {
        statements[rank] = json::parse(*text);
      }
    } while (!statements.contains(rank) && !refused && !deadline.passed());
  }
  return statements;
}

/// `plan sha256: ab on ranks 0, 1; cd on rank 2`, a line for each fact that differs.
std::vector<std::string> differences(const std::map<int, Facts>& facts) {
  std::set<std::string> names;
  for (const auto& [rank, own] : facts) {
    for (const auto& [name, value] : own) names.insert(name);
  }
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    std::vector<std::pair<std::string, std::vector<int>>> holders;  // in order of their first rank
    for (const auto& [rank, own] : facts) {
      const auto found = own.find(name);
      const std::string value = found == own.end() ? "nothing" : found->second;
      auto place = std::ranges::find(holders, value, [](const auto& entry) { return entry.first; });
      if (place == holders.end()) place = holders.insert(place, {value, {}});
      place->second.push_back(rank);
    }
    if (holders.size() < 2) continue;
    std::vector<std::string> parts;
    parts.reserve(holders.size());
    for (const auto& [value, ranks] : holders) {
      parts.push_back(fmt::format("{} on {}", value, name_ranks(ranks)));
    }
    lines.push_back(fmt::format("{}: {}", name, fmt::join(parts, "; ")));
  }
  return lines;
}

/// Two ranks that cannot both be right about who is on their machine.
std::string find_scattered(const Statements& statements) {
  using Machine = std::pair<int, int>;
  const auto told = [](int rank, const Machine& machine) {
    return fmt::format("rank {} is number {} of {} on its machine", rank, rank - machine.first,
                       machine.second);
  };
  for (const auto& [rank, statement] : statements) {
    const Machine machine = statement.at("machine");
    for (int other = machine.first; other < machine.first + machine.second; ++other) {
      const auto found = statements.find(other);
      if (found == statements.end() || found->second.at("machine") == statement.at("machine"))
        continue;
      return fmt::format("{} (from 0), but {}", told(rank, machine),
                         told(other, found->second.at("machine")));
    }
  }
  return "";
}

struct Problem {
  std::string text, cure;
};

/// The problem with these statements; without text where there is none.
Problem find_problem(const Statements& statements) {
  std::map<int, Facts> facts;
  for (const auto& [rank, statement] : statements) {
    if (statement.contains("refuses")) {
      return {fmt::format("rank {} refuses to run: {}", rank,
                          statement.at("refuses").get<std::string>()),
              kCure};
    }
    facts[rank] = statement.at("facts").get<Facts>();
  }
  const std::vector<std::string> lines = differences(facts);
  if (lines.empty()) return {find_scattered(statements), kMachineByMachine};
  return {fmt::format("{}", fmt::join(lines, "\n  ")), kCure};
}

std::string find_missing(const Seat& seat, const Statements& statements, double timeout_s) {
  std::vector<int> missing;
  for (int rank = 0; rank < seat.size; ++rank) {
    if (!statements.contains(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return "";
  return fmt::format("{} of {} did not come within {:g} s", name_ranks(missing), seat.size,
                     timeout_s);
}

/// Rank 0, which hosts the store, stays until the others have read the verdict. Some may still
/// come, unless the verdict is that they did not come.
void say_farewell(const Seat& seat, bool missing) {
  const Deadline deadline(kVerdict_s);
  for (int rank = 1; rank < seat.size; ++rank) {
    if (missing && !seat.store.get_within(statement_key(rank), 0)) continue;
    seat.store.get_within(heard_key(rank), deadline.left_s());
  }
}

/// A rank beyond rank 0's count may differ from it in the number of ranks.
void obey(const Seat& seat, const json& verdict, const Facts& facts) {
  std::string problem = verdict.at("problem");
  const std::string cure = problem.empty() ? kCure : verdict.at("cure").get<std::string>();
  if (problem.empty()) {
    const std::map<int, Facts> pair{{0, verdict.at("facts").get<Facts>()}, {seat.rank, facts}};
    problem = fmt::format("{}", fmt::join(differences(pair), "\n  "));
  }
  if (problem.empty()) return;
  if (verdict.at("missing").get<bool>()) throw PeerError(-1, problem);
  throw InputError("handshake", problem, cure);
}

json make_verdict(const Seat& seat, const Facts& facts, double timeout_s) {
  const Statements statements = collect_statements(seat, timeout_s);
  Problem problem = find_problem(statements);
  const bool missing = problem.text.empty();
  if (missing) problem.text = find_missing(seat, statements, timeout_s);
  return {{"facts", facts},
          {"problem", problem.text},
          {"cure", problem.cure},
          {"missing", missing && !problem.text.empty()}};
}

}  // namespace

void shake_hands(const Seat& seat, const Facts& facts, double timeout_s) {
  seat.store.set(statement_key(seat.rank),
                 json{{"facts", facts}, {"machine", seat.machine}}.dump());
  if (seat.rank == 0) {
    const json verdict = make_verdict(seat, facts, timeout_s);
    seat.store.set("handshake/verdict", verdict.dump());
    if (!verdict.at("problem").get<std::string>().empty())
      say_farewell(seat, verdict.at("missing"));
    return obey(seat, verdict, facts);
  }
  const auto verdict = seat.store.get_within("handshake/verdict", timeout_s + kLateness_s);
  if (!verdict) throw PeerError(0, fmt::format("rank 0 did not come within {:g} s", timeout_s));
  seat.store.set(heard_key(seat.rank), "");
  obey(seat, json::parse(*verdict), facts);
}

void refuse_to_run(const Seat& seat, const std::string& mistake) {
  seat.store.set(statement_key(seat.rank), json{{"refuses", mistake}}.dump());
  seat.store.set("handshake/refused", "");
  if (seat.rank != 0) {
    if (seat.store.get_within("handshake/verdict", kVerdict_s)) {
      seat.store.set(heard_key(seat.rank), "");
    }
    return;
  }
  const json verdict{{"facts", Facts()},
                     {"problem", "rank 0 refuses to run: " + mistake},
                     {"cure", kCure},
                     {"missing", false}};
  seat.store.set("handshake/verdict", verdict.dump());
  say_farewell(seat, false);
}

}  // namespace penstock
