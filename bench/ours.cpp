// Penstock's own simulator.
#include "bench/measure.hpp"
#include "bench/program.hpp"
#include "pipeline/program/lowering.hpp"
#include "simulator/engine/simulate.hpp"
#include "tests/simgrid/child.hpp"

namespace penstock::bench {

namespace {

/// The work of `penstock simulate --json` between arguments and result.
double simulate_once(const Study& study) {
  const Program program = build_compute(study);
  return simulate_compute(program, chain_flows(program.stage_count()), build_costs(program),
                          build_network(study), {.timeline = false, .memory = false})
      .makespan_s;
}

/// The smallest study of the schedule: brings the code into memory before memory is measured.
Study small(Study study) {
  study.ranks = 2;
  study.microbatches = 4;
  return study;
}

}  // namespace

Row measure_ours(const Study& study, int repetitions) {
  const std::vector<double> numbers = testing::in_child([&] {
    simulate_once(small(study));
    const double before_bytes = resident_bytes();
    const double makespan_s = simulate_once(study);
    const double added_bytes = peak_resident_bytes() - before_bytes;
    std::vector<double> wall_s, cpu_s;
    for (int i = 0; i < repetitions; ++i) {
      const Seconds seconds = time_call([&] { simulate_once(study); });
      wall_s.push_back(seconds.wall);
      cpu_s.push_back(seconds.cpu);
    }
    return std::vector{median(wall_s), median(cpu_s), added_bytes, makespan_s, count_tasks(study)};
  });
  return {.simulator = "penstock",
          .study = study,
          .tasks = numbers.at(4),
          .seconds = numbers.at(0),
          .cpu_s = numbers.at(1),
          .peak_bytes = numbers.at(2),
          .makespan_s = numbers.at(3),
          .repetitions = repetitions};
}

}  // namespace penstock::bench
