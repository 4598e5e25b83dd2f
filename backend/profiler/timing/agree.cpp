#include "backend/profiler/timing/agree.hpp"

#include <numeric>

#include "backend/device/out_of_memory.hpp"

namespace penstock::profiler {
namespace {

std::vector<int> all_ranks(const Communicator& communicator) {
  std::vector<int> ranks(communicator.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void append(Measured& measured, std::vector<double*>& values) {
  values.insert(values.end(),
                {&measured.mean_s, &measured.median_s, &measured.spread_s, &measured.host_s});
}

void append(ActionTimes& times, std::vector<double*>& values) {
  append(times.forward, values);
  append(times.backward, values);
  append(times.backward_input, values);
  append(times.backward_weight, values);
}

}  // namespace

double from_rank(Communicator& communicator, int rank, double value) {
  at::Tensor sum = at::full({1}, communicator.rank() == rank ? value : 0, at::kDouble);
  communicator.all_reduce(sum, all_ranks(communicator));
  return sum.item<double>();
}

double largest_over_ranks(Communicator& communicator, double value) {
  at::Tensor each = at::zeros({communicator.size()}, at::kDouble);
  each[communicator.rank()] = value;
  communicator.all_reduce(each, all_ranks(communicator));
  return each.max().item<double>();
}

void mean_over_ranks(Communicator& communicator, const std::vector<double*>& values) {
  at::Tensor sum = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
  double* numbers = sum.data_ptr<double>();
  for (size_t i = 0; i < values.size(); ++i) numbers[i] = *values[i];
  communicator.all_reduce(sum, all_ranks(communicator));
  for (size_t i = 0; i < values.size(); ++i) *values[i] = numbers[i] / communicator.size();
}

bool fits_everywhere(Communicator& communicator, const std::function<void()>& action) {
  bool fits = false;
  try {
    action();
    fits = true;
  } catch (const OutOfMemory&) {
  } catch (const c10::OutOfMemoryError&) {
  }
  return largest_over_ranks(communicator, fits ? 0 : 1) == 0;
}

void mean_over_ranks(Communicator& communicator, ActionTimes& times) {
  std::vector<double*> values;
  append(times, values);
  mean_over_ranks(communicator, values);
}

void mean_over_ranks(Communicator& communicator, MicrobatchCosts& costs) {
  std::vector<double*> values{&costs.first_microbatch_excess, &costs.load_batch_s};
  append(costs.loss_forward, values);
  for (OperatorCost& op : costs.operators) append(op.times, values);
  for (UnitCost& unit : costs.units) append(unit.times, values);
  mean_over_ranks(communicator, values);
}

}  // namespace penstock::profiler
