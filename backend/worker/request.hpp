// The requests of a script to the ranks (cli/serve), a line of JSON on standard input each.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/rendezvous.hpp"
#include "base/error.hpp"

namespace penstock {

struct Request {
  int64_t id = 0;
  std::string call;      // `step`, `evaluate`, `forward`, `state_dict`, `save`, `load`, `close`
  nlohmann::json given;  // its arguments but the tensors
  nlohmann::json extra;  // of a checkpoint; each script may have another one
  /// By name, of the tensors that the script passes, where it is one of several scripts.
  std::map<std::string, uint32_t> checksums;
  std::optional<int64_t> samples;  // of what the script passes, if it passes anything
};

/// The next one; nothing where the other end is gone.
std::optional<Request> next_request();

/// A user's mistake that all ranks meet, and that has changed nothing.
class Refused : public InputError {
 public:
  using InputError::InputError;
  explicit Refused(const InputError& mistake) : InputError(mistake) {}
};

/// A rank's script ended while another's goes on.
class ScriptEnded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Compares the requests of ranks that have a script each; all ranks call it. They have to ask for
/// the same, and the ranks of a replica to pass the same tensors. Throws Refused, on all of them,
/// where they differ, and ScriptEnded where one script has ended and another has not.
class Agreement {
 public:
  /// `tensors`: the names of all that a script may pass; it may leave out what its rank does not
  /// read.
  Agreement(int replica, int replicas, std::vector<std::string> tensors, Communicator& communicator,
            const Seat& seat)
      : replica_(replica),
        replicas_(replicas),
        tensors_(std::move(tensors)),
        communicator_(communicator),
        seat_(seat) {}
  /// `step`: the next one. A request that passes nothing gets the others' number of samples.
  void check(Request& request, int64_t step);

 private:
  std::vector<nlohmann::json> requests_of_all(const Request& request) const;

  std::vector<double> numbers_of(const Request& request) const;

  const int replica_, replicas_;
  const std::vector<std::string> tensors_;
  Communicator& communicator_;
  const Seat seat_;
  int64_t checked_ = 0;  // requests
};

}  // namespace penstock
