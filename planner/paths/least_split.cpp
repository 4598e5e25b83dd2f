#include "planner/paths/least_split.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace penstock {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Relative: sums along the chain are differences of larger ones.
constexpr double sum_rounding = 1e-9;
/// Prices of memory that are tried: with the first, all of it is worth so much of a step, each
/// further one is so many times the one before, and then it is halved between those about the best.
constexpr double first_price = 1.0 / 1024, price_ratio = 2;
constexpr int most_prices = 16, halvings = 8;

/// For each of `count` places the least of the values at [place + from, place + to], of those that
/// there are; both ends ascend with the place, so a value that is no less than a later one is
/// forgotten.
std::vector<double> window_least(const std::vector<double>& values, int count, int from, int to) {
  std::vector<double> least(static_cast<size_t>(count), never);
  std::vector<int> ascending;
  size_t first = 0;
  int next = std::max(0, from);
  const int size = static_cast<int>(values.size());
  for (int place = 0; place < count; ++place) {
    for (; next <= std::min(place + to, size - 1); ++next) {
      const double value = values[static_cast<size_t>(next)];
      while (ascending.size() > first && values[static_cast<size_t>(ascending.back())] >= value)
        ascending.pop_back();
      ascending.push_back(next);
    }
    while (first < ascending.size() && ascending[first] < place + from) ++first;
    if (first < ascending.size())
      least[static_cast<size_t>(place)] = values[static_cast<size_t>(ascending[first])];
  }
  return least;
}

void add(std::vector<double>& to, const std::vector<double>& values) {
  std::ranges::transform(to, values, to.begin(), std::plus());
}

}  // namespace

LeastSplit::LeastSplit(const SplitTimes& times, const Times& weights, const SplitBox& box,
                       const SplitMemory::Priced* memory)
    : times_(times), weights_(weights), memory_(memory), low_(box.begins.low), stages_(box.stages) {
  own_.push_back({0.0});  // stage 0 begins with unit 0
  until_ = own_;
  for (size_t s = 1; s < low_.size(); ++s) {
    own_.push_back(times.of_begin(weights, static_cast<int>(s), low_[s], box.begins.high[s]));
    for (size_t i = 0; memory_ && i < own_[s].size(); ++i)
      own_[s][i] += memory_->of_begin(s, low_[s] + static_cast<int>(i));
    const int shift = low_[s] - low_[s - 1];
    until_.push_back(window_least(until_[s - 1], static_cast<int>(own_[s].size()),
                                  shift - stages_.high[s - 1], shift - stages_.low[s - 1]));
    add(until_[s], own_[s]);
  }
  begins_ = follow_back();
  // Begins alone say where a split differs from others; its sum is that of all its times.
  sum_ = weighted_sum(weights, times.of(begins_)) + (memory_ ? memory_->of(begins_) : 0.0);
}

std::vector<int> LeastSplit::follow_back() const {
  std::vector<int> begins(low_.size(), 0);
  const std::vector<double>& last = until_.back();
  begins.back() = low_.back() + static_cast<int>(std::ranges::min_element(last) - last.begin());
  for (size_t s = low_.size() - 1; s-- > 0;) {
    const int from = std::max(low_[s], begins[s + 1] - stages_.high[s]);
    const int to =
        std::min(low_[s] + static_cast<int>(until_[s].size()) - 1, begins[s + 1] - stages_.low[s]);
    begins[s] = from;
    for (int unit = from; unit <= to; ++unit)
      if (until_[s][place(s, unit)] < until_[s][place(s, begins[s])]) begins[s] = unit;
  }
  return begins;
}

LeastSplit::Sums LeastSplit::behind() const {
  Sums behind(low_.size());
  behind.back().assign(own_.back().size(), 0.0);
  for (size_t s = low_.size() - 1; s-- > 0;) {
    std::vector<double> next = behind[s + 1];
    add(next, own_[s + 1]);
    const int shift = low_[s] - low_[s + 1];
    behind[s] = window_least(next, static_cast<int>(own_[s].size()), shift + stages_.low[s],
                             shift + stages_.high[s]);
  }
  return behind;
}

void LeastSplit::narrow(SplitBox& box, double most) const {
  const Sums behind = this->behind();
  const double most_of_begins = most + sum_rounding * std::abs(most) - times_.of_ends(weights_) -
                                (memory_ ? memory_->of_ends() : 0.0);
  const auto narrow = [&](Ranges& of, size_t s, const auto& least) {
    while (of.low[s] <= of.high[s] && least(of.low[s]) > most_of_begins) ++of.low[s];
    while (of.low[s] <= of.high[s] && least(of.high[s]) > most_of_begins) --of.high[s];
  };
  for (size_t s = 1; s < low_.size(); ++s) {
    narrow(box.begins, s,
           [&](int unit) { return until_[s][place(s, unit)] + behind[s][place(s, unit)]; });
    narrow(box.stages, s - 1, [&](int units) {
      double least = never;
      for (size_t i = 0; i < until_[s - 1].size(); ++i) {
        const int end = low_[s - 1] + static_cast<int>(i) + units - low_[s];
        if (end < 0 || end >= static_cast<int>(own_[s].size())) continue;
        const auto e = static_cast<size_t>(end);
        least = std::min(least, until_[s - 1][i] + own_[s][e] + behind[s][e]);
      }
      return least;
    });
  }
}

namespace {

/// The fullest rank holds no less than the mean of all when each recomputes all that it can.
int64_t least_bytes(const SplitTimes& times, const SplitMemory& memory) {
  const SplitMemory::Priced left(memory, memory.of_all_ranks(1, /*all_freed=*/true));
  const double excess = LeastSplit(times, Times(times.size(), 0.0), times.all(), &left).sum() -
                        sum_rounding * left.prices().limit;
  return memory.most_bytes() + static_cast<int64_t>(std::floor(excess / memory.ranks()));
}

}  // namespace

/// The sum is concave in the price: it rises up to the best one.
SplitNeeds needs_of_all(const SplitTimes& times, const SplitMemory& memory, const Times& path) {
  const SplitBox all = times.all();
  const std::vector<double> longer = memory.longer(times, path);
  SplitNeeds needs{LeastSplit(times, path, all).sum(), least_bytes(times, memory)};
  const auto is_better = [&](double byte) {
    MemoryPrices prices = memory.of_all_ranks(byte, /*all_freed=*/false);
    prices.second = longer;
    const SplitMemory::Priced priced(memory, prices);
    const double seconds = LeastSplit(times, path, all, &priced).sum();
    const bool better = seconds > needs.seconds;
    if (better) needs.seconds = seconds;
    return better;
  };
  double price = first_price * needs.seconds / memory.of_all_ranks(1, true).limit;
  if (!is_better(price)) return needs;
  for (int tried = 1; tried < most_prices && is_better(price * price_ratio); ++tried)
    price *= price_ratio;
  double step = price_ratio;
  for (int i = 0; i < halvings; ++i) {
    step = std::sqrt(step);
    if (is_better(price * step))
      price *= step;
    else if (is_better(price / step))
      price /= step;
  }
  return needs;
}

}  // namespace penstock
