// The protocol between `penstock` and `penstock-worker`: JSON, one object a line.
//
// To the worker's standard input: first its task, then, where the task's store has no port yet, the
// line {"port": N}; and to the one that tells the others where its supervisor is, an empty object
// once all have come there. From its standard output events: {"event": NAME, …}, the names being
//   port      {port}                       rank 0 hosts the store there
//   fleet     {host, port, token}          the supervisor of process 0 is there
//   ready     {}                           loaded and connected
//   step      {step, loss, step_s, …}      from rank 0
//   validation {step, loss}                from rank 0, after that step; loss: null if not finite
//   timeline  {step, events: [[rank, action, start_s, end_s, bytes], …]}   from rank 0
//   saved     {path}                       a checkpoint
//   snapshot  {step}                       that before it, to be saved or copied, is complete
//   stopped   {step}                       that step was the last, as some process was told to end
//   summary   {…}                          from rank 0, last
//   link      {latency_s, …, samples}      from rank 0, of the command `link`
//   devices   {count}                      of the command `devices`
//   progress  {what, share}                of the command `profile`
//   done      {id, result or refused, steps_done}   from each rank, of a request (service.hpp)
//   written   {names}                      of the command `state_dict`
//   warning   {message}
//   error     {kind, rank, step, action, message, lost}
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pipeline/program/timeline.hpp"

namespace penstock {

/// Ranks of different versions do not run together.
inline constexpr const char* kProtocolVersion = "1";

/// Facts that all ranks of a run must agree on, by name: `plan sha256` and so on.
using Facts = std::map<std::string, std::string>;

inline constexpr double kStartTimeout_s = 600;

struct WorkerTask {
  /// Or `spare`, `profile`, `link`, `devices`, `state_dict`, `multiply_bf16`, `refuse`.
  std::string command = "execute";
  int rank = 0, world_size = 1;  // of a spare -1
  /// The worker's number among the processes, by which they meet; rank_of_process (plan.hpp). At
  /// the start of a run so many meet, spares behind the ranks.
  int process = 0, processes = 1;
  int local_rank = 0, local_size = 1;  // of the ranks on this machine: for cores and threads
  int node = 0;                        // as the launcher counts them, 0 where it does not
  bool launched = false;               // by torchrun, srun, mpirun: this is the only worker here
  std::string store_host = "127.0.0.1", store_prefix;
  int store_port = 0;        // 0: a free one, told by the `port` event
  bool store_serve = false;  // this worker hosts the store
  /// Port of process 0's supervisor, at which the others' find it (supervision/fleet.hpp); -1: they
  /// need not.
  int fleet_port = -1;
  std::string fleet_token;
  bool one_machine = true;                   // all ranks are on this machine
  int progress = -1;                         // descriptor of a SharedProgress, or -1
  std::vector<int> slots;                    // descriptors of snapshots; empty: none are taken
  bool copied = false;                       // each snapshot, by another process: waits for it
  int64_t next_step = -1;                    // goes on with the snapshot before it; -1: with none
  double start_timeout_s = kStartTimeout_s;  // for all ranks to come
  Facts facts;                               // compared when the ranks meet
  nlohmann::json arguments;                  // of the command
  /// `cpu` or `cuda`; of the latter so many local ranks share a GPU.
  std::string device = "cpu";
  int ranks_per_device = 1;
  std::string transport = "auto";  // gloo: also between ranks of one machine
};

nlohmann::json to_json(const WorkerTask& task);
/// Throws nlohmann::json::exception.
WorkerTask parse_task(const nlohmann::json& json);

/// Why a worker failed. A lost peer is rarely the root cause.
/// `final`: it would happen again, as a loss that is not finite.
enum class FailureKind { input, failure, final, peer };

struct WorkerError {
  FailureKind kind = FailureKind::failure;
  int rank = 0;
  int lost = -1;       // of kind peer: the rank that is gone, or -1 where unknown
  int64_t step = -1;   // from 0; -1: before the first
  std::string action;  // "" outside of one
  std::string message;
};

nlohmann::json to_json(const WorkerError& error);
WorkerError parse_error(const nlohmann::json& json);

/// Steps as people count them: the first is 1, as in lines of progress and names of checkpoints.
inline int64_t step_number(int64_t step) { return step + 1; }
/// `in step 4 at 1F0`, `before its first step`.
std::string place_in_run(int64_t step, const std::string& action);

nlohmann::json to_json(const Timeline& timeline);
Timeline parse_timeline(const nlohmann::json& json);

}  // namespace penstock
