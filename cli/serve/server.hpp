// Serves a script: hands its requests to the workers, one at a time, and their answers to it.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "cli/inputs/execute_check.hpp"
#include "cli/serve/script.hpp"
#include "cli/workers/workers.hpp"
#include "pipeline/program/program.hpp"

namespace penstock::cli {

struct ServerOptions {
  int patience_s = 60;   // with a script that asks for nothing, before a warning
  bool survive = false;  // a failure: the ranks are replaced, and the script sees a slow request
};

class Server {
 public:
  /// All of it outlives the server.
  Server(const CheckedRun& checked, const ExecuteTask& task, const std::vector<WorkerTask>& tasks,
         Script& script, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until the script asks for the end, has ended, or the run fails, which it is told.
  /// Returns the exit status. Throws InputError before the workers start.
  int run();

 private:
  using Json = nlohmann::json;
  void take_event(size_t worker, const Json& event);
  void take_answer(size_t worker, const Json& event);
  void take_request(const Json& request);
  void give_answer();
  void begin_epoch(int64_t next_step, int64_t answered_by_all);
  void go_on();
  void next();
  bool rests() const;
  void ask(const Json& request);
  Json for_workers(const Json& request) const;
  void refuse(const Json& request, const std::string& message) const;
  void tell_done(Json answer) const;
  void tell_ready() const;
  void script_ended();
  void wait_for_script();
  void warn_of_slow_script();

  const CheckedRun& checked_;
  const Program executed_;  // as the workers do
  const ExecuteTask& task_;
  const std::vector<WorkerTask>& tasks_;
  Script& script_;
  std::optional<Workers> workers_;
  std::deque<Json> waiting_;       // requests
  std::optional<Json> asked_;      // the request that the workers are at work on
  std::optional<Json> last_step_;  // the request of the last step that was done
  bool again_ = false;             // the workers do that step once more
  std::optional<Json> answer_;
  bool held_ = false;                // the answer, until the ranks of other scripts have one
  size_t ready_ = 0, answered_ = 0;  // workers
  int64_t requests_ = 0;             // that all of them have answered
  int64_t steps_done_ = 0, restarts_ = 0;
  bool told_ready_ = false, closing_ = false;
  const ServerOptions options_;
  int impatient_;  // a timer that runs while the ranks wait for the script; -1 once it has rung
};

}  // namespace penstock::cli
