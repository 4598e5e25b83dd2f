// The least that any split of a layout takes, from sums over the chain: cheap, for the many layouts
// that a search never has to come to.
//
// Valid for any schedule and any way to lay stages on ranks (an ideal that real schedules
// approach): the ranks share the work, so their largest load is at least the mean; the k-th rank to
// begin has at least k units before it; units are whole; one microbatch passes all units; hosts
// share what they issue as ranks share the work; cores that several ranks compute on do no more
// than they can. Transfers, recompute and memory are left out.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/bounds/bounds.hpp"
#include "planner/bounds/whole_units.hpp"
#include "planner/model/rank_speeds.hpp"

namespace penstock {

class LayoutBound {
 public:
  /// `costs` with backwards of either kind: what holds for them holds for all schedules.
  explicit LayoutBound(const ChainCosts& costs);

  /// In seconds, of a step with so many microbatches; `costs` are for the fastest rank. `cores`:
  /// how many ranks there are cores for (core_use.hpp: ranks_at_full_speed).
  double step_s(const RankSpeeds& speeds, int64_t microbatches,
                double cores = std::numeric_limits<double>::infinity()) const;

 private:
  double one_s_ = 0;                    // F and I of one microbatch
  double weights_s_ = 0;                // W
  double through_s_ = 0;                // from the first unit to the last and back
  double first_s_ = 0;                  // what microbatch 0 takes longer
  WholeUnits whole_units_{{}};          // all but what microbatch 0 takes longer
  double host_s_ = 0, max_host_s_ = 0;  // of hosts, for one microbatch; of a unit
  double optimizer_s_ = 0, reduce_s_ = 0;
  std::vector<double> before_s_;  // F and I of the units before unit i, whichever microbatch
  std::vector<double> fill_s_;    // the sum of these for the first i ranks
};

}  // namespace penstock
