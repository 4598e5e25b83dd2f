// Programs as CSV, and all that `simulate --program` does with one: lowering, checks, simulation.
#include "pipeline/program/check.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/engine/simulate.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

namespace {

/// A chain's flows and those that the program's own SENDs use.
std::vector<Flow> flows_of(const Program& program) {
  std::vector<Flow> flows = chain_flows(program.stage_count());
  for (const auto& rank : program.ranks) {
    for (const Action& action : rank) {
      if (!is_send(action.kind)) continue;
      const bool forward = action.kind == Kind::send_forward;
      const int from = forward ? action.stage : peer_stage(action);
      const int to = forward ? peer_stage(action) : action.stage;
      if (0 <= from && from < to && to < program.stage_count()) {
        flows.push_back({from, to, !forward});
      }
    }
  }
  return flows;
}

/// Times that tell F, B, I and W apart, and messages that take time.
Costs costs_of(const Program& program, const std::vector<Flow>& flows) {
  return equal_stages(program.stage_count(),
                      {.forward_s = 1,
                       .backward_s = 3,
                       .backward_input_s = 2,
                       .backward_weight_s = 1,
                       .saved_bytes = 8,
                       .saved_weight_bytes = 4},
                      flows, 16);
}

void check_times(const Simulation& simulation) {
  for (const double busy_s : simulation.busy_s) {
    require(busy_s <= simulation.makespan_s, "no rank is busy for longer than the makespan");
  }
  for (const TimelineEvent& event : simulation.timeline) {
    require(0 <= event.start_s && event.start_s <= event.end_s, "an event ends after it starts");
  }
  for (const int64_t bytes : simulation.peak_memory_bytes) {
    require(bytes >= 0, "memory is not negative");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  const auto program = accepted("program: ", [&] { return parse_csv(text, "program"); });
  if (!program) return 0;
  const Program again = parse_csv(to_csv(*program), "printed");
  require(again.ranks == program->ranks && again.rank_of_stage == program->rank_of_stage &&
              again.microbatches == program->microbatches,
          "a program parses as it prints");
  accepted("program: ", [&] { return check_compute(*program, "program"), true; });

  const std::vector<Flow> flows = flows_of(*program);
  const auto lowered = accepted("program: ", [&] {
    Program made = is_lowered(*program) ? *program : lower(*program, flows);
    check(made, flows, "program");
    return made;
  });
  if (!lowered) return 0;
  const Costs costs = costs_of(*lowered, flows);
  Link link{.latency_s = 0.5, .bandwidth = 32};
  check_times(simulate(*lowered, costs, link));  // what `check` accepts finishes
  for (const SendMode mode : {SendMode::posted, SendMode::rendezvous}) {
    link.mode = mode;
    const auto run = accepted("program: ", [&] { return simulate(*lowered, costs, link); });
    if (run) check_times(*run);
  }
  return 0;
}
