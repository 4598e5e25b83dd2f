// Penstock's own simulator.
#include "bench/measure.hpp"
#include "bench/program.hpp"
#include "simulator/simulate.hpp"
#include "tests/simgrid/child.hpp"

namespace penstock::bench {

namespace {

/// What `penstock simulate --json` does between arguments and result.
double simulate_once(const Study& study) {
  const Program program = build_program(study);
  return simulate(program, build_costs(program), build_link(), {.timeline = false, .memory = false})
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
    std::vector<double> seconds;
    for (int i = 0; i < repetitions; ++i) {
      seconds.push_back(time_s([&] { simulate_once(study); }));
    }
    return std::vector{median(seconds), added_bytes, makespan_s, count_tasks(study)};
  });
  return {.simulator = "penstock",
          .study = study,
          .tasks = numbers.at(3),
          .seconds = numbers.at(0),
          .peak_bytes = numbers.at(1),
          .makespan_s = numbers.at(2),
          .repetitions = repetitions};
}

}  // namespace penstock::bench
