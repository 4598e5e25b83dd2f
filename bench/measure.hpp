// Measures a row of the table: the same tasks, seconds and bytes for each simulator.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace penstock::bench {

/// A schedule on equal stages: F 1 ms, I and W 1 ms, B 2 ms, 16 MB messages, 25 GB/s, 10 us.
struct Study {
  std::string schedule;
  int ranks = 1, stages_per_rank = 1, microbatches = 1;
  /// Eager on links of their own; posted on such; or posted between nodes of four ranks, whose
  /// links, and whose network card, share 25 GB/s.
  enum class Links { eager, posted, shared } links = Links::eager;

  std::string name() const;  // `1f1b P=8 M=512`
};

struct Row {
  std::string simulator;
  Study study;
  double tasks = 0;       // compute actions and messages
  double seconds = 0;     // from arguments to makespan, building included: the median
  double cpu_s = 0;       // the same in processor time: what it takes of one core
  double peak_bytes = 0;  // resident memory that the first repetition added
  double makespan_s = 0;  // simulated; 0: the simulator knows no times
  int repetitions = 0;
  std::string skipped;  // why there are no numbers, or ""

  /// Per second of one core, whatever else the machine does meanwhile.
  double tasks_per_s() const { return tasks / cpu_s; }
  double bytes_per_task() const { return peak_bytes / tasks; }
};

/// `eager`.
const char* name(Study::Links links);

double median(std::vector<double> values);
/// Seconds that the call takes, and those that the processor worked on it.
struct Seconds {
  double wall = 0, cpu = 0;
};
Seconds time_call(const std::function<void()>& call);
/// Bytes of this process in memory, now and at most so far.
double resident_bytes();
double peak_resident_bytes();

/// Compute actions and messages of the study's lowered program.
double count_tasks(const Study& study);

// One file each. They measure in child processes, so that no row sees another's memory.
Row measure_ours(const Study& study, int repetitions);
Row measure_simgrid(const Study& study, int repetitions);
Row measure_torch(const Study& study, int repetitions, const std::string& python);

}  // namespace penstock::bench
