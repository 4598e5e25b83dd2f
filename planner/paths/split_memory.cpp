#include "planner/paths/split_memory.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

using Places = std::vector<SplitTimes::Place>;

double mean(const std::vector<double>& sums, const Places& places) {
  double sum = 0;
  for (const auto& [unit, share] : places) sum += share * sums[static_cast<size_t>(unit)];
  return sum;
}

}  // namespace

bool MemoryPrices::any(size_t stage) const {
  return own[stage] != 0 || saved[stage] != 0 || given[stage] != 0 || for_weight[stage] != 0 ||
         turn[stage] != 0 || again[stage] != 0 || unit[stage] != 0 || second[stage] != 0 ||
         whole[stage] != 0;
}

void MemoryPrices::add(const MemoryPrices& other, double times) {
  for (size_t s = 0; s < own.size(); ++s) {
    own[s] += times * other.own[s];
    saved[s] += times * other.saved[s];
    given[s] += times * other.given[s];
    for_weight[s] += times * other.for_weight[s];
    turn[s] += times * other.turn[s];
    again[s] += times * other.again[s];
    unit[s] += times * other.unit[s];
    whole[s] += times * other.whole[s];
  }
  limit += times * other.limit;
}

SplitMemory::SplitMemory(const StageTable& bytes, const std::vector<LayerChoices>& units,
                         const std::vector<int64_t>& for_weight, const Placement& placement,
                         const RankSpeeds& speeds, std::vector<HeldAtOnce> moments,
                         std::vector<int64_t> limits, double first)
    : rank_of_stage_(placement.rank_of_stage),
      microbatches_(placement.microbatches),
      units_(units.size()),
      choices_(units),
      moments_(std::move(moments)),
      limits_(std::move(limits)),
      first_(first) {
  for (const int rank : rank_of_stage_)
    speed_.push_back(speeds.relative()[static_cast<size_t>(rank)]);
  for (const HeldAtOnce& moment : moments_)
    for (size_t s = 0; s < rank_of_stage_.size(); ++s)
      if (moment.held[s] > 0) steps_.try_emplace({moment.held[s], moment.turning[s]});
  for (auto& [counts, steps] : steps_) steps = steps_of(counts);
  const bool alone = placement.one_stage_per_rank();
  own_ = sums_of(bytes, [&](const StageBytes& of) { return of.always - (alone ? 0 : of.common); });
  saved_ = sums_of(
      bytes, [&](const StageBytes& of) { return of.per_microbatch - (alone ? 0 : of.received); });
  given_ = sums_of(bytes, [&](const StageBytes& of) {
    return std::max<int64_t>(0, of.least() - (alone ? 0 : of.received));
  });
  turn_ = sums_of(bytes, [](const StageBytes& of) { return of.turn; });
  again_.assign(units_ + 1, 0.0);
  for (size_t end = 1; end <= units_; ++end)
    again_[end] = static_cast<double>(bytes.at(0, static_cast<int>(end)).again);
  for_weight_.until.assign(units_ + 1, 0.0);
  for (size_t unit = 0; unit < for_weight.size(); ++unit)
    for_weight_.until[unit + 1] = for_weight_.until[unit] + static_cast<double>(for_weight[unit]);
  for_weight_.before = for_weight_.until;
}

SplitMemory::Sums SplitMemory::sums_of(const StageTable& bytes,
                                       const std::function<int64_t(const StageBytes&)>& of) const {
  const int units = static_cast<int>(units_);
  Sums sums{std::vector<double>(units_ + 1, 0.0), std::vector<double>(units_ + 1, 0.0)};
  for (int end = 1; end <= units; ++end)
    sums.until[static_cast<size_t>(end)] = static_cast<double>(of(bytes.at(0, end)));
  for (int begin = 1; begin < units; ++begin) {
    int64_t most = of(bytes.at(0, begin + 1)) - of(bytes.at(begin, begin + 1));
    for (int end = begin + 2; end <= units; ++end)
      most = std::max(most, of(bytes.at(0, end)) - of(bytes.at(begin, end)));
    sums.before[static_cast<size_t>(begin)] = static_cast<double>(most);
  }
  return sums;
}

std::vector<double> SplitMemory::longer(const SplitTimes& times, const Times& path) const {
  std::vector<double> longer;
  for (int stage = 0; stage < stages(); ++stage)
    longer.push_back(path[times.at(SplitTime::input, stage)] +
                     first_ * path[times.at(SplitTime::first_input, stage)]);
  return longer;
}

void SplitMemory::lengthen(const SplitTimes& of, const std::vector<double>& longer_s,
                           Times& times) const {
  for (int stage = 0; stage < stages(); ++stage) {
    const double each_s = longer_s[static_cast<size_t>(stage)];
    times[of.at(SplitTime::input, stage)] += each_s;
    times[of.at(SplitTime::first_input, stage)] += first_ * each_s;
  }
}

SplitMemory::Priced::Priced(const SplitMemory& memory, const MemoryPrices& prices)
    : prices_(prices) {
  const size_t units = memory.units_;
  std::vector<double> least(units + 1);
  for (size_t s = 0; s < memory.rank_of_stage_.size(); ++s) {
    std::ranges::fill(least, 0.0);
    if (!prices.any(s)) {
      until_.push_back(least);
      before_.push_back(least);
      continue;
    }
    std::vector<double> last(units + 1, 0.0);  // what it comes to more of the last unit
    for (size_t unit = 0; unit < units; ++unit) {
      const double any = memory.least_of(unit, prices, s, 0);
      if (prices.again[s] != 0)
        last[unit + 1] = memory.least_of(unit, prices, s, memory.again_[unit + 1]) - any;
      least[unit + 1] = least[unit] + any;
    }
    const auto priced = [&](std::vector<double> Sums::*at) {
      std::vector<double> sums = least;
      for (size_t unit = 0; unit <= units; ++unit)
        sums[unit] +=
            prices.own[s] * (memory.own_.*at)[unit] + prices.saved[s] * (memory.saved_.*at)[unit] +
            prices.given[s] * (memory.given_.*at)[unit] +
            prices.for_weight[s] * (memory.for_weight_.*at)[unit] +
            prices.turn[s] * (memory.turn_.*at)[unit] + prices.unit[s] * static_cast<double>(unit);
      return sums;
    };
    until_.push_back(priced(&Sums::until));
    for (size_t unit = 1; unit <= units; ++unit) until_.back()[unit] += last[unit];
    before_.push_back(priced(&Sums::before));
  }
  ends_ = until_.back().back() - before_.front().front() - prices.limit;
}

double SplitMemory::Priced::of(const std::vector<int>& begins) const {
  double sum = ends_;
  for (size_t stage = 1; stage < begins.size(); ++stage) sum += of_begin(stage, begins[stage]);
  return sum;
}

/// The least that a unit comes to over its choices; `again`: what it has made again, where it
/// recomputes by itself, when a backward of its stage begins.
double SplitMemory::least_of(size_t unit, const MemoryPrices& prices, size_t stage,
                             double again) const {
  const double second = (prices.second[stage] - prices.whole[stage]) / speed_[stage];
  double least = 0;
  for (const LayerChoice& choice : choices_[unit]) {
    const double alone =
        prices.saved[stage] * static_cast<double>(choice.bytes) - prices.again[stage] * again;
    const double at_once =
        (prices.saved[stage] - prices.again[stage]) * static_cast<double>(choice.at_once);
    least = std::min(least, second * choice.seconds - std::max(alone, at_once));
  }
  return least;
}

SplitMemory::Steps SplitMemory::steps_of(const Counts& counts) const {
  Steps steps;
  for (size_t unit = 0; unit < units_; ++unit) {
    LayerChoices freed = choices_[unit];
    for (LayerChoice& choice : freed) choice.bytes = choice.freed(counts.first, counts.second);
    for (const LayerChoice& step : hull(std::move(freed)))
      steps.push_back({unit, step.seconds, static_cast<double>(step.bytes)});
  }
  std::ranges::stable_sort(steps, [](const Step& one, const Step& other) {
    return one.seconds * other.bytes < other.seconds * one.bytes;
  });
  return steps;
}

/// Shares of a mixture may be below 0 where stages trade places; of all prices the one for which
/// least is freed counts.
SplitMemory::Freed SplitMemory::most_freed(const Steps& steps, const Mean& of) const {
  double spent = 0, bytes = 0;
  Freed least{0, 0};
  bool any = false;
  const auto consider = [&](double per_second) {
    const double freed = bytes + per_second * (of.seconds - spent);
    if (!any || freed < least.bytes) least = {freed, per_second};
    any = true;
  };
  for (const Step& step : steps) {
    if (of.shares[step.unit] == 0) continue;
    if (step.seconds > 0) consider(step.bytes / step.seconds);
    spent += of.shares[step.unit] * step.seconds;
    bytes += of.shares[step.unit] * step.bytes;
  }
  consider(0);
  return least;
}

std::vector<SplitMemory::Mean> SplitMemory::means(const std::vector<Places>& begins,
                                                  const std::vector<double>& seconds) const {
  const Places end{{static_cast<int>(units_), 1.0}};
  std::vector<Mean> means;
  for (size_t s = 0; s < begins.size(); ++s) {
    const Places& until = s + 1 < begins.size() ? begins[s + 1] : end;
    const auto of = [&](const Sums& sums) {
      return mean(sums.until, until) - mean(sums.before, begins[s]);
    };
    std::vector<double> shares(units_ + 1, 0.0);
    for (const auto& [unit, share] : begins[s]) shares[static_cast<size_t>(unit)] += share;
    for (const auto& [unit, share] : until) shares[static_cast<size_t>(unit)] -= share;
    std::partial_sum(shares.begin(), shares.end(), shares.begin());
    means.push_back({of(own_),
                     of(saved_),
                     of(given_),
                     of(for_weight_),
                     of(turn_),
                     std::move(shares),
                     seconds[s] * speed_[s],
                     {}});
  }
  return means;
}

/// All is freed by more than sums are rounded: else prices of what is freed say more about other
/// mixtures.
SplitMemory::Kept SplitMemory::kept(const HeldAtOnce& moment, size_t stage, Mean& of) const {
  const Counts counts{moment.held[stage], moment.turning[stage]};
  if (counts.first == 0) return {0, 0, true};
  const auto [freed, fresh] = of.freed.try_emplace(counts);
  if (fresh) freed->second = most_freed(steps_.at(counts), of);
  const double least = counts.first * of.given;
  const double bytes = counts.first * of.saved - freed->second.bytes;
  return {std::max(least, bytes), freed->second.per_second, least > bytes + 1};
}

/// The bytes by which the rank is above its limit at that moment, in the mean of a mixture.
double SplitMemory::excess(const HeldAtOnce& moment, std::vector<Mean>& means) const {
  double excess = -static_cast<double>(limits_[static_cast<size_t>(moment.rank)]);
  for (size_t s = 0; s < means.size(); ++s) {
    if (rank_of_stage_[s] != moment.rank) continue;
    excess += means[s].own + kept(moment, s, means[s]).bytes +
              moment.left[s] * means[s].for_weight + moment.turning[s] * means[s].turn;
  }
  return excess;
}

/// `most`: of a unit's share of the limit, where no second helps.
MemoryPrices SplitMemory::prices(const HeldAtOnce& moment, std::vector<Mean>& means,
                                 double most) const {
  const auto limit = static_cast<double>(limits_[static_cast<size_t>(moment.rank)]);
  MemoryPrices prices(means.size());
  prices.rank = moment.rank;
  double largest = 0;  // bytes for a second
  for (size_t s = 0; s < means.size(); ++s) {
    if (rank_of_stage_[s] != moment.rank) continue;
    const Kept kept = this->kept(moment, s, means[s]);
    if (kept.all_freed) continue;
    prices.second[s] = kept.per_second * speed_[s];
    largest = std::max(largest, prices.second[s]);
  }
  const double byte =
      largest > 0 ? microbatches_ / largest : static_cast<double>(units_) * most / limit;
  for (size_t s = 0; s < means.size(); ++s) {
    if (rank_of_stage_[s] != moment.rank) continue;
    const bool all_freed = kept(moment, s, means[s]).all_freed;
    prices.own[s] = byte;
    (all_freed ? prices.given : prices.saved)[s] = byte * moment.held[s];
    prices.for_weight[s] = byte * moment.left[s];
    prices.turn[s] = byte * moment.turning[s];
    if (!all_freed) prices.again[s] = prices.turn[s];
    prices.second[s] *= byte;
  }
  prices.limit = byte * limit;
  return prices;
}

std::vector<MemoryPrices> SplitMemory::broken(const std::vector<Places>& begins,
                                              const std::vector<double>& seconds,
                                              const std::vector<double>& owed, double most) const {
  std::vector<Mean> means = this->means(begins, seconds);
  std::vector<double> worst(limits_.size(), 0.0);
  std::vector<const HeldAtOnce*> when(limits_.size(), nullptr);
  for (const HeldAtOnce& moment : moments_) {
    const auto rank = static_cast<size_t>(moment.rank);
    const double excess = this->excess(moment, means);
    if (excess <= worst[rank]) continue;
    worst[rank] = excess;
    when[rank] = &moment;
  }
  std::vector<MemoryPrices> broken;
  for (size_t rank = 0; rank < when.size(); ++rank) {
    if (!when[rank]) continue;
    MemoryPrices prices = this->prices(*when[rank], means, most);
    const double byte = prices.limit / static_cast<double>(limits_[rank]);
    if (byte * worst[rank] > owed[rank] + paid_within * most) broken.push_back(std::move(prices));
  }
  return broken;
}

MemoryPrices SplitMemory::of_all_ranks(double byte, bool all_freed) const {
  std::vector<const HeldAtOnce*> fullest(limits_.size(), nullptr);
  const auto held = [](const HeldAtOnce& moment) {
    return std::accumulate(moment.held.begin(), moment.held.end(), 0);
  };
  for (const HeldAtOnce& moment : moments_) {
    const HeldAtOnce*& most = fullest[static_cast<size_t>(moment.rank)];
    if (!most || held(moment) > held(*most)) most = &moment;
  }
  MemoryPrices prices(rank_of_stage_.size());
  for (size_t s = 0; s < rank_of_stage_.size(); ++s) {
    const HeldAtOnce& moment = *fullest[static_cast<size_t>(rank_of_stage_[s])];
    prices.own[s] = byte;
    (all_freed ? prices.given : prices.saved)[s] = byte * moment.held[s];
    prices.for_weight[s] = byte * moment.left[s];
    prices.turn[s] = byte * moment.turning[s];
  }
  for (const int64_t limit : limits_) prices.limit += byte * static_cast<double>(limit);
  return prices;
}

}  // namespace penstock
