#include "backend/profiler/hosts.hpp"

#include <algorithm>
#include <limits>

namespace penstock::profiler {

double issue_s(Subject& subject, int64_t microbatch) {
  const Batch batch = subject.batches.read(0, microbatch);
  double min_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kIssuePasses; ++i) {
    const ChainRun run = subject.whole.run(batch, subject.context(microbatch, i), false);
    min_s = std::min(min_s, run.times.front().forward.host + run.times.front().backward.host);
  }
  return min_s;
}

void scale_hosts(ActionTimes& times, double scale) {
  for (Measured* measured :
       {&times.forward, &times.backward, &times.backward_input, &times.backward_weight})
    measured->host_s *= scale;
}

void scale_hosts(MicrobatchCosts& costs, double scale) {
  for (OperatorCost& op : costs.operators) scale_hosts(op.times, scale);
  for (UnitCost& unit : costs.units) scale_hosts(unit.times, scale);
  costs.loss_forward.host_s *= scale;
}

}  // namespace penstock::profiler
