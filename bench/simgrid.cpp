// The SimGrid program of the tests (tests/simgrid/replay.hpp), a new process for each repetition.
#include "bench/measure.hpp"
#include "bench/program.hpp"
#include "tests/simgrid/child.hpp"
#include "tests/simgrid/replay.hpp"

namespace penstock::bench {

namespace {

/// Seconds, those of the processor, added bytes, makespan.
std::vector<double> replay_once(const Study& study) {
  const double before_bytes = resident_bytes();
  double makespan_s = 0;
  const Seconds seconds = time_call([&] {
    const Program program = build_program(study);
    const Link link = build_network(study).link();
    makespan_s = testing::simgrid_makespan_s(
        program, build_costs(program), testing::Platform::plain({link.latency_s, link.bandwidth}));
  });
  return {seconds.wall, seconds.cpu, peak_resident_bytes() - before_bytes, makespan_s};
}

}  // namespace

Row measure_simgrid(const Study& study, int repetitions) {
  std::vector<double> wall_s, cpu_s, bytes;
  Row row{.simulator = "SimGrid", .study = study, .repetitions = repetitions};
  for (int i = 0; i < repetitions; ++i) {
    const std::vector<double> numbers = testing::in_child([&] { return replay_once(study); });
    wall_s.push_back(numbers.at(0));
    cpu_s.push_back(numbers.at(1));
    bytes.push_back(numbers.at(2));
    row.makespan_s = numbers.at(3);
  }
  row.seconds = median(wall_s);
  row.cpu_s = median(cpu_s);
  row.peak_bytes = median(bytes);
  row.tasks = testing::in_child([&] { return std::vector{count_tasks(study)}; }).at(0);
  return row;
}

}  // namespace penstock::bench
