// The script that a run serves: JSON, one object a line.
//
// From it requests {id, do, given, extra}, and {checksums, samples} of the batch where it passes
// something of one. `do` and what is `given`:
//   step        {learning_rate}   null for the job's
//   evaluate    {}                of a step's samples or fewer
//   forward     {}
//   state_dict  {}
//   save        {folder, keep}    with `extra` beside `given`, which rank 0's script says
//   load        {folder}          its newest intact checkpoint; returns its `extra`
//   sync        {}                answered once all earlier requests have been
//   close       {}                ends the run
// To it events:
//   ready    {rank, replica, replicas, steps_done, extra, batch, samples}   before all others
//   done     {id, steps_done, restarts, result}   or with `refused`, where nothing was done
//   warning  {message}
//   error    {kind, message, rank, step, action}   the run is over
// A batch lies in its slot (launch/shared_batch.hpp) of the memory of --batches when its request
// comes, one to evaluate or for forwards in that of the next step, and may be overwritten when that
// is done; where the run survives, a step's when the next one's is. Tensors of a result lie in the
// memory of --results until the next request.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "launch/worker_protocol.hpp"

namespace penstock::cli {

class Script {
 public:
  /// The process that started this one, at the other end of standard input and output. Throws
  /// std::system_error where it has ended.
  Script();
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void tell(const nlohmann::json& event) const;
  void tell_warning(const std::string& message) const;
  /// The run is over; `input`: by a user's mistake.
  void tell_error(bool input, const std::string& message, const WorkerError& place = {}) const;

  /// There is something to read: requests, or their end.
  static constexpr int requests = 0;
  /// Calls `take` with the requests that have come; returns false at their end.
  bool read(const std::function<void(const nlohmann::json&)>& take);
  /// For messages: `process 4711 (python train.py)`.
  std::string name() const;
  /// Can be read once the process has ended: others may hold its end of standard input open.
  int process() const { return process_; }

 private:
  pid_t id_ = -1;
  int process_ = -1;    // a descriptor
  std::string unread_;  // an unfinished line
};

}  // namespace penstock::cli
