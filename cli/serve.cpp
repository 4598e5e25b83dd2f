// penstock serve: trains a plan for a script, which feeds the batches; the Python module starts it.
// A user's mistake is told to the script, in the form that serve/script.hpp says.
#include "cli/serve/server.hpp"

#include "base/error.hpp"
#include "cli/command_line/commands.hpp"
#include "cli/files/given_paths.hpp"
#include "cli/inputs/resumed.hpp"
#include "cli/inputs/run_tasks.hpp"
#include "cli/inputs/survival.hpp"
#include "cli/serve/feed.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/onednn_isa.hpp"
#include "launch/shared_memory.hpp"

namespace penstock::cli {

namespace {

struct PreparedService {
  CheckedRun checked;
  ExecuteTask task;
  std::vector<WorkerTask> workers;
  RunBegin begin;
  Survival survival;
};

void check_paths_of(const ExecuteOptions& run) {
  std::vector<GivenPath> paths{{"plan", PathUse::input, run.plan, {FileKind::plan}}};
  if (!run.save.empty()) paths.push_back({"save", PathUse::output_folder, run.save, {}});
  if (!run.resume.empty())
    paths.push_back(
        {"resume", PathUse::input, run.resume, {FileKind::checkpoint, FileKind::folder}});
  check_paths("serve", paths);
}

PreparedService prepare(const ServeOptions& options, const std::optional<Launcher>& launcher) {
  check_paths_of(options.run);
  PreparedService service{.checked = check_execute(options.run)};
  service.begin = find_begin(options.run, service.checked);
  service.task = execute_task(options.run, service.checked, service.begin);
  const int rank = rank_of_script(service.checked.plan, launcher);
  service.task.batch = batch_of(service.checked, rank, options.batches);
  service.task.results = options.results;
  service.survival = find_survival(options.run, launcher, service.checked, /*saves=*/false,
                                   /*peak_bytes=*/{});
  SharedBatch& batch = service.task.batch;
  if (service.survival.survives) batch.slots = 2;
  resize_memory(options.batches, batch.bytes * batch.slots);
  service.workers =
      run_tasks("serve", options.run, service.checked, service.task, launcher, service.survival);
  return service;
}

}  // namespace

int serve(const ServeOptions& options) {
  Script script;
  try {
    const std::optional<Launcher> launcher = find_launcher(process_environment());
    std::optional<PreparedService> service;
    or_tell_others(launcher, [&] { service = prepare(options, launcher); });
    if (options.run.workers.device == "cpu") limit_onednn(service->checked.graph, /*quiet=*/true);
    if (!service->begin.checkpoint.empty()) {
      for (const std::string& note : service->begin.notes) script.tell_warning(note);
    }
    if (const std::string& why_not = service->survival.why_not; !why_not.empty())
      script.tell_warning(why_not);
    return Server(service->checked, service->task, service->workers, script,
                  {options.patience_s, service->survival.survives})
        .run();
  } catch (const InputError& error) {
    script.tell_error(/*input=*/true, error.what());
    return 2;
  }
}

}  // namespace penstock::cli
