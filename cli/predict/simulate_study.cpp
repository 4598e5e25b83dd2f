// Studies without a plan: equal stages whose costs come from flags.
#include "cli/predict/simulate_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "cli/inputs/plan_inputs.hpp"
#include "pipeline/program/check.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/adaptive/adaptive.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock::cli {

namespace {

constexpr const char* usage =
    "Give PLAN.yaml, or --program FILE.csv, or --schedule NAME --ranks P --microbatches M.";
/// Pairs of stage and microbatch; beyond it a simulation would not fit into an ordinary memory.
constexpr int64_t kMaxPairs = 20'000'000;

struct Flag {
  const char* name;
  bool given;
};

void refuse_flags(std::initializer_list<Flag> flags, const std::string& problem,
                  const std::string& cure) {
  for (const Flag& flag : flags) {
    if (flag.given) throw InputError(flag.name, problem, cure);
  }
}

void check_source(const SimulateOptions& options) {
  const int sources = !options.plan.empty() + !options.program.empty() + !options.schedule.empty();
  if (sources == 0) throw InputError("simulate", "there is nothing to simulate", usage);
  if (sources > 1) {
    throw InputError("simulate", "a plan, --program and --schedule exclude each other", usage);
  }
}

/// The first action of that kind, as text, or "".
std::string first_of(const Program& program, Kind kind) {
  for (const auto& rank : program.ranks) {
    for (const Action& action : rank) {
      std::string found;
      for_each_part(action, [&](const Action& part) {
        if (part.kind == kind) found = to_string(part);
      });
      if (!found.empty()) return found;
    }
  }
  return "";
}

double seconds(const std::string& text, const char* flag) {
  constexpr double longest_s = 1e9;
  const double value = parse_seconds(text, flag);
  if (value <= longest_s) return value;
  throw InputError(flag, fmt::format("`{}` is out of range", text), "Give at most 1e9 seconds.");
}

double needed_time(const std::string& text, const char* flag, const std::string& action) {
  if (!text.empty()) return seconds(text, flag);
  throw InputError(flag, fmt::format("not given, but the program runs {}", action),
                   fmt::format("Add the time per stage and microbatch, as in {} 1ms.", flag));
}

/// Times of F, and of B or of I and W. B without a time of its own is I and W together.
void read_times(const SimulateOptions& options, const Program& program, StageCosts& costs) {
  const bool halves = !options.backward_input.empty() || !options.backward_weight.empty();
  if (halves && !options.backward.empty()) {
    throw InputError("--backward", "does not go with --backward-input and --backward-weight",
                     "Give either the whole backward or its two halves.");
  }
  const std::string whole = first_of(program, Kind::backward);
  const std::string input = first_of(program, Kind::backward_input);
  const std::string weight = first_of(program, Kind::backward_weight);
  costs.forward_s = needed_time(options.forward, "--forward", first_of(program, Kind::forward));
  if (!input.empty() || halves) {
    const std::string& asking = input.empty() ? whole : input;
    costs.backward_input_s = needed_time(options.backward_input, "--backward-input", asking);
    costs.backward_weight_s =
        needed_time(options.backward_weight, "--backward-weight", weight.empty() ? asking : weight);
  }
  costs.backward_s = costs.backward_input_s + costs.backward_weight_s;
  if (!whole.empty() && !halves) {
    costs.backward_s = needed_time(options.backward, "--backward", whole);
  }
}

/// Bytes that are held once per stage and microbatch; all together they have to be a number still.
int64_t held_bytes(const std::string& text, const char* flag, const Program& program) {
  const int64_t pairs = std::max<int64_t>(1, int64_t{program.stage_count()} * program.microbatches);
  const int64_t value = parse_bytes(text, flag);
  if (value <= std::numeric_limits<int64_t>::max() / 4 / pairs) return value;
  throw InputError(flag, fmt::format("`{}` is out of range", text),
                   "Give what one stage holds for one microbatch, as in 64MB.");
}

void read_memory(const SimulateOptions& options, const Program& program, StageCosts& costs,
                 Study& study) {
  if (options.saved.empty()) {
    refuse_flags(
        {{"--saved-weight", !options.saved_weight.empty()}, {"--memory", !options.memory.empty()}},
        "nothing is held without --saved",
        "Add what a stage holds per microbatch, as in --saved 64MB.");
    return;
  }
  costs.saved_bytes = held_bytes(options.saved, "--saved", program);
  if (!options.saved_weight.empty()) {
    costs.saved_weight_bytes = held_bytes(options.saved_weight, "--saved-weight", program);
  }
  if (!options.memory.empty())
    study.memory = {.max_bytes = parse_bytes(options.memory, "--memory")};
}

Link read_link(const SimulateOptions& options) {
  Link link;
  if (!options.latency.empty()) link.latency_s = seconds(options.latency, "--latency");
  if (options.bandwidth.empty()) return link;
  if (options.message.empty()) {
    throw InputError("--bandwidth", "no bytes move without --message",
                     "Add what a stage sends per microbatch, as in --message 16MB.");
  }
  link.bandwidth = parse_bandwidth(options.bandwidth, "--bandwidth");
  return link;
}

/// The chain's flows and, for a program with transfers, those that skip stages.
std::vector<Flow> flows_of(const Program& program) {
  std::vector<Flow> flows = chain_flows(program.stage_count());
  const auto add = [&](int from, int to, bool gradient) {
    if (from >= to || to >= program.stage_count() || from < 0) return;  // `check` refuses these
    const auto known = std::ranges::find_if(
        flows, [&](const Flow& flow) { return flow.from == from && flow.to == to; });
    if (known == flows.end()) {
      flows.push_back({from, to, gradient});
    } else if (to != from + 1) {
      known->gradient |= gradient;
    }
  };
  for (const auto& rank : program.ranks) {
    for (const Action& action : rank) {
      if (action.kind == Kind::send_forward) add(action.stage, peer_stage(action), false);
      if (action.kind == Kind::send_backward) add(peer_stage(action), action.stage, true);
    }
  }
  return flows;
}

/// An action of every kind, on stages that loop over the ranks: `adaptive` has no program before
/// its costs are known.
Program stand_in(const ScheduleShape& shape) {
  Program program = empty_program(StagePlacement::loop, shape);
  for (const Kind kind : {Kind::forward, Kind::backward_input, Kind::backward_weight}) {
    program.ranks[0].push_back({0, kind, 0});
  }
  return program;
}

Program from_schedule(const SimulateOptions& options) {
  const bool is_adaptive = options.schedule == adaptive_schedule;
  const Schedule* schedule = is_adaptive ? nullptr : &find_schedule(options.schedule, "--schedule");
  if (!options.ranks || !options.microbatches) {
    throw InputError(options.ranks ? "--microbatches" : "--ranks", "not given", usage);
  }
  const int stages_per_rank =
      options.stages_per_rank.value_or(schedule ? std::max(1, schedule->stages_per_rank) : 1);
  const int64_t stages = int64_t{*options.ranks} * stages_per_rank;
  if (stages > kMaxPairs / *options.microbatches) {
    throw InputError("--microbatches",
                     fmt::format("{} stages x {} microbatches are more than {}", stages,
                                 *options.microbatches, kMaxPairs),
                     "Simulate fewer: the steady state repeats.");
  }
  const ScheduleShape shape{.ranks = *options.ranks,
                            .stages_per_rank = stages_per_rank,
                            .microbatches = *options.microbatches};
  return schedule ? schedule->generate(shape) : stand_in(shape);
}

Program from_file(const SimulateOptions& options) {
  refuse_flags({{"--ranks", options.ranks.has_value()},
                {"--stages-per-rank", options.stages_per_rank.has_value()},
                {"--microbatches", options.microbatches.has_value()}},
               "does not go with --program, whose rows are the ranks",
               "Leave it out: ranks, stages and microbatches follow from the file.");
  return parse_csv(read_file(options.program), options.program);
}

AdaptiveProblem problem_of(const Study& study, const Program& stand_in) {
  return {.rank_of_stage = stand_in.rank_of_stage,
          .ranks = stand_in.rank_count(),
          .microbatches = stand_in.microbatches,
          .flows = study.flows,
          .costs = study.costs,
          .network = study.network,
          .memory = study.memory};
}

/// Links, speeds and memory are the cluster's.
void put_on_cluster(const SimulateOptions& options, const Program& program, Study& study) {
  refuse_flags(
      {{"--bandwidth", !options.bandwidth.empty()}, {"--latency", !options.latency.empty()}},
      "does not go with --cluster, which has links of its own", "Leave one of them out.");
  const Cluster cluster = read_cluster(options.cluster);
  const int ranks = program.rank_count();
  if (ranks > cluster.ranks) {
    throw InputError("--cluster",
                     fmt::format("{} ranks, but {} has {}", ranks, options.cluster, cluster.ranks),
                     "Study fewer ranks, or name a larger cluster.");
  }
  study.title += " on " + options.cluster;
  study.facts.push_back({"cluster", describe(cluster)});
  study.network = Network(cluster);
  for (size_t stage = 0; stage < study.costs.stages.size(); ++stage)
    speed_up(study.costs.stages[stage], cluster.speed(program.rank_of_stage[stage]));
  if (options.memory.empty()) study.memory = cluster_memory(cluster, ranks, 1);
}

/// The arguments as they were typed.
std::vector<PageFact> facts(const SimulateOptions& options) {
  std::vector<PageFact> facts = {{options.schedule.empty() ? "program" : "schedule",
                                  options.schedule.empty() ? options.program : options.schedule}};
  const std::pair<const char*, const std::string*> given[] = {
      {"forward", &options.forward},
      {"backward", &options.backward},
      {"backward for the input", &options.backward_input},
      {"backward for the weight", &options.backward_weight},
      {"message", &options.message},
      {"bandwidth", &options.bandwidth},
      {"latency", &options.latency}};
  for (const auto& [name, text] : given)
    if (!text->empty()) facts.push_back({name, *text});
  return facts;
}

}  // namespace

Study make_study(const SimulateOptions& options) {
  check_source(options);
  if (options.seed && !options.samples)
    throw InputError("--seed", "nothing is drawn", "Add --samples N, or leave it out.");
  if (!options.plan.empty()) {
    refuse_flags({{"--ranks", options.ranks.has_value()},
                  {"--stages-per-rank", options.stages_per_rank.has_value()},
                  {"--microbatches", options.microbatches.has_value()},
                  {"--forward", !options.forward.empty()},
                  {"--backward", !options.backward.empty()},
                  {"--backward-input", !options.backward_input.empty()},
                  {"--backward-weight", !options.backward_weight.empty()},
                  {"--message", !options.message.empty()},
                  {"--bandwidth", !options.bandwidth.empty()},
                  {"--latency", !options.latency.empty()},
                  {"--saved", !options.saved.empty()},
                  {"--saved-weight", !options.saved_weight.empty()}},
                 "does not go with a plan",
                 "A plan's costs come from its profile and cluster: use --set KEY=VALUE, name "
                 "another --cluster, or study a --schedule.");
    return plan_study(read_plan(options.plan), options);
  }
  refuse_flags({{"--cuda-graphs", !options.cuda_graphs.empty()}}, "is for plans",
               "Give PLAN.yaml, whose profile says what replays cost, or leave it out.");
  refuse_flags({{"--forward-only", options.forward_only}}, "is for plans",
               "Give PLAN.yaml, or leave it out: a program of forwards alone is simulated as it "
               "is.");
  refuse_flags({{"--survive", options.survive != "off"}}, "is for plans",
               "Give PLAN.yaml, whose model says what the ranks' states take, or leave it out.");
  refuse_flags({{"--samples", options.samples.has_value()}}, "is for plans",
               "Give PLAN.yaml, whose profile says what times vary by, or leave it out.");
  refuse_flags({{"--measured", !options.measured.empty()}}, "is for plans",
               "Give PLAN.yaml, the one that was executed, or leave it out.");
  refuse_flags({{"--set", !options.set.empty()}}, "is for plans, whose files say what it overrides",
               "Give the other flags other values.");
  Study study;
  study.title = options.schedule.empty() ? options.program : options.schedule;
  Program program = options.schedule.empty() ? from_file(options) : from_schedule(options);
  const std::string place = options.schedule.empty() ? options.program : "--schedule";
  study.facts = facts(options);
  StageCosts each;
  read_times(options, program, each);
  read_memory(options, program, each, study);
  study.network = read_link(options);
  const std::vector<Flow> flows = flows_of(program);
  study.costs =
      equal_stages(program.stage_count(), each, flows,
                   options.message.empty() ? 0 : parse_bytes(options.message, "--message"));
  if (!options.cluster.empty()) put_on_cluster(options, program, study);
  if (options.schedule.empty()) {
    study.program = is_lowered(program) ? program : lower(program, flows, {.place = place});
    check(study.program, flows, place);
  } else {
    study.flows = flows;
    const bool is_adaptive = options.schedule == adaptive_schedule;
    study.program = is_adaptive ? adaptive(problem_of(study, program)) : std::move(program);
  }
  return study;
}

}  // namespace penstock::cli
