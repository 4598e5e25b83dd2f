// A failure of a rank, as the supervisor that watches the rank tells it, and of a run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/supervision/recovery.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock::cli {

struct Failure {
  WorkerError place;        // with the error that the rank told, if it told one
  std::string text;         // for people
  bool killed = false;      // by SIGKILL, and not for a hang
  bool standstill = false;  // killed, as all ranks waited
};

/// Why a run of workers ended badly.
struct WorkersFailure {
  int status = 1;  // for the process: 1, 2 for a user's mistake, 128 + signal when interrupted
  std::string message;
  WorkerError cause = {};  // its rank, step and action; of no rank where a signal ended the run
  bool told = false;       // to people, by another process of the run
};

inline bool lost_peer(const Failure& failure) { return failure.place.kind == FailureKind::peer; }

/// The first of a rank that failed by itself, else the first. There is one.
const Failure& root_cause(const std::vector<Failure>& failures);

RankFailure rank_failure(const Failure& failure);

nlohmann::json to_json(const Failure& failure);
/// Throws nlohmann::json::exception.
Failure parse_failure(const nlohmann::json& json);

/// An order that no leader gives (fleet.cpp): the run ends, and nobody else tells people why.
nlohmann::json untold_end(const std::string& message);

}  // namespace penstock::cli
