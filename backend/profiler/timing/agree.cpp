#include "backend/profiler/timing/agree.hpp"

#include <algorithm>

#include "backend/device/out_of_memory.hpp"
#include "pipeline/profile/variation.hpp"

namespace penstock::profiler {
namespace {

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

/// The numbers of every rank, by rank; as many on each.
std::vector<std::vector<double>> from_all_ranks(Communicator& communicator,
                                                const std::vector<double>& values) {
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor each = at::zeros({communicator.size(), count}, at::kDouble);
  std::ranges::copy(values, each[communicator.rank()].data_ptr<double>());
  communicator.all_reduce(each, communicator.all_ranks());
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const double* numbers = each[rank].data_ptr<double>();
    all.emplace_back(numbers, numbers + count);
  }
  return all;
}

}  // namespace

double from_rank(Communicator& communicator, int rank, double value) {
  at::Tensor sum = at::full({1}, communicator.rank() == rank ? value : 0, at::kDouble);
  communicator.all_reduce(sum, communicator.all_ranks());
  return sum.item<double>();
}

double largest_over_ranks(Communicator& communicator, double value) {
  double largest = value;
  for (const std::vector<double>& rank : from_all_ranks(communicator, {value}))
    largest = std::max(largest, rank.front());
  return largest;
}

void mean_over_ranks(Communicator& communicator, const std::vector<double*>& values) {
  at::Tensor sum = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
  double* numbers = sum.data_ptr<double>();
  for (size_t i = 0; i < values.size(); ++i) numbers[i] = *values[i];
  communicator.all_reduce(sum, communicator.all_ranks());
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

void pool_variation(Communicator& communicator, MicrobatchCosts& costs) {
  const size_t own = costs.rounds.empty() ? 0 : costs.rounds.front().size();
  const auto rounds = from_all_ranks(communicator, {static_cast<double>(own)});
  const bool same = std::ranges::all_of(rounds, [&](const auto& of) { return of == rounds[0]; });
  if (!same || rounds[0][0] == 0) {
    costs.rounds.clear();
    for (UnitCost& unit : costs.units) unit.jitter = {};
    return;
  }
  costs.rounds = from_all_ranks(communicator, costs.rounds.front());
  for (UnitCost& unit : costs.units) {
    for (Factors* jitter : {&unit.jitter.forward, &unit.jitter.backward,
                            &unit.jitter.backward_input, &unit.jitter.backward_weight}) {
      std::vector<double> all;
      for (const auto& rank : from_all_ranks(communicator, *jitter))
        all.insert(all.end(), rank.begin(), rank.end());
      *jitter = equal_shares(std::move(all));
    }
  }
}

}  // namespace penstock::profiler
