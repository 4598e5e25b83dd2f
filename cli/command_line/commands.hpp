// The commands of `penstock`: what each is given, and the function that carries it out.
// arguments.cpp fills these from the command line; every command has a file of its own.
// A command returns the exit status; a user's mistake is an InputError (status 2).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/files/file_kind.hpp"
#include "cli/workers/worker_options.hpp"

namespace penstock::cli {

struct ProfileOptions {
  std::string job;
  WorkerOptions workers;  // its device may be `estimate`, too
  std::string spec, fit;  // of --device estimate: the device's figures, a profile measured on it
  std::set<int> tensor_parallel;  // parts of tensor groups, whose costs are wanted too
  std::string sharding;           // a plan whose pins they have; "": none
  std::optional<int>
      ranks;               // local ranks that compute at the same time; absent: 2, or of one GPU 1
  std::optional<int> top;  // operators to print; absent: 10 if verbose, else none
  bool verbose = false;
  bool link = false;  // only the link, as a cluster file; no job
  bool quick = false;
  std::optional<double> budget_s;  // for microbatch sizes beyond the first and for repetitions
  std::string output;
};
int profile(const ProfileOptions& options);

struct PlanOptions {
  std::string profile, cluster, output;
  std::string objective = "throughput", shared_parameters = "auto", html;
  std::string optimizer_state;         // a way, auto; "": auto with a cluster, else replicated
  std::string cuda_graphs;             // auto, on, off; "": not said
  std::string survive = "off";         // or local, peers
  std::optional<int> ranks;            // absent: the cluster's, or the split's, or 2
  std::vector<std::string> schedules;  // empty: auto
  std::optional<int64_t> microbatches, data_parallel;  // absent: auto
  std::optional<int> stages_per_rank;
  std::string tensor_parallel;  // a number, auto; "": auto with a cluster, else 1
  std::optional<int64_t> memory_bytes;
  std::optional<double> search_s;  // an effort
  std::vector<std::string> split;
  std::vector<std::string> whole_modules;
  std::vector<std::string> sweep;  // KEY=V1,V2,…: inputs/sweep_axes.hpp; empty: one plan
  std::vector<std::string> words;  // of a sweep: the flags that each of its plans has
  bool json = false;               // of a sweep
  bool explain = false;
  bool fastest = false, verbose = false;
  bool contiguous = false;
  bool allow_batch_coupling = false;
  bool forward_only = false;
};
int plan(const PlanOptions& options);

struct SimulateOptions {
  std::string plan, program, schedule;  // one of them
  std::string cluster;                  // instead of the plan's; "": not said
  std::string measured;                 // a trace, whose compute is taken; "": not said
  std::vector<std::string> set;         // KEY=VALUE: inputs/overrides.hpp
  std::optional<int> ranks, stages_per_rank, microbatches;
  // Per stage and microbatch, as typed (`1ms`, `16MB`, `25GB/s`); parsed by the command.
  std::string forward, backward, backward_input, backward_weight;
  std::string message, bandwidth, latency;
  std::string saved, saved_weight, memory;
  std::string cuda_graphs;      // auto, on, off; "": not said
  std::string survive = "off";  // or local, peers; of a plan
  std::optional<int64_t> samples, seed;
  std::string trace, html;
  bool forward_only = false;  // of a plan
  bool json = false;
  bool verbose = false;
  int width = 0;  // columns of the drawing; 0: the terminal's
};
int simulate(const SimulateOptions& options);

struct ExecuteOptions {
  std::string plan, output, trace, metrics, tensorboard, dump_gradients, save, resume, weights;
  std::string survive = "off";  // local, peers, auto
  std::optional<int64_t> steps, save_every, keep, spares;
  WorkerOptions workers;
  std::string cuda_graphs;  // auto, on, off; "": not said
  bool shrink = false;      // where no spare is left
  bool forward_only = false, json = false;
  bool fed = false;              // by a script, with batches, for as long as it wants
  double start_timeout_s = 600;  // for all ranks to start
};
int execute(const ExecuteOptions& options);

struct ServeOptions {
  ExecuteOptions run;
  int batches = -1, results = -1;  // descriptors of the memory that is shared with the script
  int patience_s = 60;             // with a script that asks for nothing, before a warning
};
int serve(const ServeOptions& options);

struct CompareOptions {
  std::string predicted, actual, html;
  bool json = false;
};
int compare(const CompareOptions& options);

struct ExportOptions {
  std::string plan, format, output;
  std::string lowered;     // the torch version whose lowered format is wanted, or ""
  std::string checkpoint;  // a folder with trained weights, or ""
};
int export_plan(const ExportOptions& options);
/// The formats that it knows, a line each.
std::string export_formats();

struct ShowOptions {
  std::string path;
  std::string profile;       // of a model: also its measured times
  bool layers = false;       // of a profile: as a table of layers
  std::optional<int> stage;  // of a plan: this one's operators
  bool verbose = false;
};
int show(const ShowOptions& options);
/// The kinds of files that it knows.
std::vector<FileKind> shown_kinds();

/// Parses the command line, runs its command, prints a failure's message; the process's exit
/// status.
int run(int argc, char** argv);

}  // namespace penstock::cli
