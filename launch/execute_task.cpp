#include "launch/execute_task.hpp"

namespace penstock {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExecuteTask, plan, plan_sha256, program, first_step, steps,
                                   forward_only, cuda_graphs, metrics, timeline, output,
                                   dump_gradients, save, resume, weights, save_every, keep, batch,
                                   results)

nlohmann::json to_json(const ExecuteTask& task) {
  nlohmann::json json;
  to_json(json, task);
  return json;
}

ExecuteTask parse_execute_task(const nlohmann::json& json) { return json.get<ExecuteTask>(); }

}  // namespace penstock
