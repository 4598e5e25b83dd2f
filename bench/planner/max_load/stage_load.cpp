#include "bench/planner/max_load/stage_load.hpp"

namespace penstock::bench {

StageLoad::StageLoad(const PlacementUnits& units)
    : units_(units), uses_(units.dag.nodes), states_(units.outputs.size()), past_(1) {
  for (int i = 0; i < static_cast<int>(units.outputs.size()); ++i) {
    uses_[units.outputs[i].home].push_back({i, true});
    for (const int reader : units.outputs[i].readers) uses_[reader].push_back({i, false});
  }
}

/// An output of the set moves if anybody outside reads it, any other if anybody inside does.
double StageLoad::moved_s(int output) const {
  const State& state = states_[output];
  const Output& all = units_.outputs[output];
  const bool moves =
      state.at_home ? state.readers < static_cast<int>(all.readers.size()) : state.readers > 0;
  return moves ? all.move_s : 0.0;
}

void StageLoad::add(int unit) {
  Sums sums = now();
  sums.cpu_s += units_.cpu_s[unit];
  sums.accelerator_s += units_.accelerator_s[unit];
  sums.bytes += units_.bytes[unit];
  if (!units_.supported[unit]) ++sums.unsupported;
  for (const Use& use : uses_[unit]) {
    const double before_s = moved_s(use.output);
    if (use.home)
      states_[use.output].at_home = true;
    else
      ++states_[use.output].readers;
    sums.transfer_s += moved_s(use.output) - before_s;
  }
  past_.push_back(sums);
}

void StageLoad::undo(int unit) {
  for (const Use& use : uses_[unit]) {
    if (use.home)
      states_[use.output].at_home = false;
    else
      --states_[use.output].readers;
  }
  past_.pop_back();
}

}  // namespace penstock::bench
