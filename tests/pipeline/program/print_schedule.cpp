// Prints a generated program as CSV: print-schedule NAME RANKS STAGES_PER_RANK MICROBATCHES
// [lowered]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"

int main(int argc, char** argv) {
  if (argc < 5) return 1;
  try {
    const penstock::Schedule& schedule = penstock::find_schedule(argv[1], "print-schedule");
    penstock::Program program =
        schedule.generate({std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])});
    if (argc > 5) program = lower(program, penstock::chain_flows(program.stage_count()));
    std::fputs(to_csv(program).c_str(), stdout);
  } catch (const penstock::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
