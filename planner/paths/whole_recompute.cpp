#include "planner/paths/whole_recompute.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace penstock {

namespace {

constexpr double does_not_fit = std::numeric_limits<double>::infinity();
/// Units of a rank, and steps in dealing them out to its stages; of more nothing is known. That
/// units are whole matters little where there are many.
constexpr int most_units = 32, most_dealt = 300;
/// Nodes of a knapsack; its bound holds if there are more.
constexpr int most_tree_nodes = 200;
/// Relative, of sums of some dozen parts.
constexpr double part_rounding = 1e-12;

/// All but those that free no more than others that take no longer; the shortest first.
LayerChoices best_of(LayerChoices all) {
  std::ranges::sort(all, {}, [](const LayerChoice& one) {
    return std::tuple(one.seconds, -one.bytes, -one.at_once);
  });
  LayerChoices best;
  for (const LayerChoice& one : all)
    if (std::ranges::none_of(best, [&](const LayerChoice& other) {
          return other.bytes >= one.bytes && other.at_once >= one.at_once;
        }))
      best.push_back(one);
  return best;
}

}  // namespace

WholeRecompute::WholeRecompute(std::shared_ptr<const StageTable> bytes,
                               std::vector<LayerChoices> units,
                               const std::vector<int64_t>& for_weight, Placement placement,
                               RankSpeeds speeds, const std::vector<HeldAtOnce>& moments,
                               std::vector<int64_t> limits)
    : bytes_(std::move(bytes)),
      units_(std::move(units)),
      for_weight_(units_.size() + 1, 0),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      limits_(std::move(limits)),
      stages_(limits_.size()),
      moments_(limits_.size()),
      known_(limits_.size()) {
  std::partial_sum(for_weight.begin(), for_weight.end(), for_weight_.begin() + 1);
  for (const HeldAtOnce& moment : moments)
    moments_[static_cast<size_t>(moment.rank)].push_back(moment);
  const size_t stages = placement_.rank_of_stage.size();
  for (size_t stage = 0; stage < stages; ++stage) {
    stages_[static_cast<size_t>(placement_.rank_of_stage[stage])].push_back(stage);
    LayerChoices any;
    for (size_t unit = stage; unit < units_.size() - (stages - 1 - stage); ++unit)
      any.insert(any.end(), units_[unit].begin(), units_[unit].end());
    any_.push_back(best_of(std::move(any)));
    least_.emplace_back();
    for (int count = 0; count <= static_cast<int>(units_.size() - stages) + 1; ++count)
      least_.back().push_back(least(stage, count));
  }
  for (const std::vector<HeldAtOnce>& of_rank : moments_) {
    steps_.emplace_back();
    for (const HeldAtOnce& moment : of_rank) steps_.back().push_back(steps_of(moment));
  }
}

WholeRecompute::WholeRecompute(Placement placement, RankSpeeds speeds)
    : placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      stages_(static_cast<size_t>(speeds_.ranks())),
      moments_(stages_.size()),
      known_(stages_.size()) {
  for (size_t stage = 0; stage < placement_.rank_of_stage.size(); ++stage)
    stages_[static_cast<size_t>(placement_.rank_of_stage[stage])].push_back(stage);
}

/// Choices of a unit of a stage with so many: where these are the first or the last of the chain it
/// is known which one it is, else it may be any.
const LayerChoices& WholeRecompute::choices(size_t stage, int units, int unit) const {
  const auto number = static_cast<size_t>(unit);
  if (stage == 0) return units_[number];
  if (stage + 1 == any_.size()) return units_[units_.size() - static_cast<size_t>(units) + number];
  return any_[stage];
}

WholeRecompute::Least WholeRecompute::least(size_t stage, int units) const {
  const size_t stages = placement_.rank_of_stage.size();
  const bool alone = placement_.one_stage_per_rank();
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  Least least{most, most, most, most, most, most, most, most};
  const int behind = static_cast<int>(stages - 1 - stage);
  const int low = stage + 1 == stages ? bytes_->units() - units : static_cast<int>(stage);
  const int high = stage == 0 ? 0 : bytes_->units() - behind - units;
  for (int begin = low; units > 0 && begin <= high; ++begin) {
    const StageBytes& of = bytes_->at(begin, begin + units);
    const int64_t received = alone ? 0 : of.received;
    least.own = std::min(least.own, of.always - (alone ? 0 : of.common));
    least.saved = std::min(least.saved, of.per_microbatch - received);
    least.apart = std::min(least.apart, std::max<int64_t>(0, of.apart - received));
    least.given = std::min(least.given, std::max<int64_t>(0, of.given - received));
    least.again = std::min(least.again, of.again);
    least.remade = std::min(least.remade, of.per_microbatch - of.given);
    least.for_weight = std::min(least.for_weight, for_weight_[static_cast<size_t>(begin + units)] -
                                                      for_weight_[static_cast<size_t>(begin)]);
    least.turn = std::min(least.turn, of.turn);
  }
  return least;
}

/// Bytes of a stage of so many units, whatever it recomputes.
int64_t WholeRecompute::given(const HeldAtOnce& moment, size_t stage, int units) const {
  const Least& of = least_[stage][static_cast<size_t>(units)];
  const int held = moment.held[stage], turning = moment.turning[stage];
  return of.own + moment.left[stage] * of.for_weight + turning * of.turn +
         std::min(held * of.apart + turning * of.again, held * of.given + turning * of.remade);
}

/// The choices of a unit of a stage with so many, with what they free at that moment.
LayerChoices WholeRecompute::freed(const HeldAtOnce& moment, size_t stage, int units,
                                   int unit) const {
  const int turning = moment.turning[stage];
  const int64_t again =
      unit + 1 == units ? turning * least_[stage][static_cast<size_t>(units)].again : 0;
  LayerChoices freed;
  for (const LayerChoice& choice : choices(stage, units, unit))
    freed.push_back({choice.seconds, choice.freed(moment.held[stage], turning, again)});
  return freed;
}

int64_t WholeRecompute::excess(const HeldAtOnce& moment, const Dealt& dealt) const {
  const std::vector<size_t>& stages = stages_[static_cast<size_t>(moment.rank)];
  int64_t kept = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Least& of = least_[stages[i]][static_cast<size_t>(dealt[i])];
    kept += of.own + moment.left[stages[i]] * of.for_weight + moment.held[stages[i]] * of.saved +
            moment.turning[stages[i]] * of.turn;
  }
  return kept - limits_[static_cast<size_t>(moment.rank)];
}

/// Seconds on the rank, in the moment when that takes most. Where the choices for one moment free
/// enough in another, that one takes no more.
double WholeRecompute::least_s(size_t rank, const Dealt& dealt) const {
  const std::vector<size_t>& stages = stages_[rank];
  std::vector<std::pair<int64_t, const HeldAtOnce*>> moments;
  for (const HeldAtOnce& moment : moments_[rank])
    if (const int64_t bytes = excess(moment, dealt); bytes > 0)
      moments.emplace_back(bytes, &moment);
  std::ranges::stable_sort(moments, std::greater(), [](const auto& one) { return one.first; });
  double seconds = 0;
  std::vector<int> last;  // choices
  for (const auto& [bytes, moment] : moments) {
    std::vector<LayerChoices> units;
    for (size_t i = 0; i < stages.size(); ++i)
      for (int unit = 0; unit < dealt[i]; ++unit)
        units.push_back(freed(*moment, stages[i], dealt[i], unit));
    int64_t enough = 0;
    for (size_t unit = 0; unit < last.size(); ++unit)
      if (last[unit] >= 0) enough += units[unit][static_cast<size_t>(last[unit])].bytes;
    if (enough >= bytes) continue;
    const ChosenLayers chosen = choose_layers(units, bytes, most_tree_nodes);
    if (!chosen.enough) return does_not_fit;
    seconds = std::max(seconds, chosen.bound_s);
    last = chosen.choices;
  }
  return seconds / speeds_.relative()[rank];
}

std::vector<WholeRecompute::Step> WholeRecompute::steps_of(const HeldAtOnce& moment) const {
  const std::vector<size_t>& stages = stages_[static_cast<size_t>(moment.rank)];
  std::vector<Step> steps;
  for (size_t i = 0; i < stages.size(); ++i) {
    const int held = moment.held[stages[i]];
    if (held == 0) continue;
    LayerChoices freed = any_[stages[i]];
    for (LayerChoice& choice : freed) choice.bytes = choice.freed(held, moment.turning[stages[i]]);
    for (const LayerChoice& step : hull(std::move(freed))) steps.push_back({i, step});
  }
  std::ranges::sort(steps, cheaper, &Step::more);
  return steps;
}

double WholeRecompute::relaxed_s(size_t rank, size_t moment, const Dealt& dealt) const {
  int64_t left = excess(moments_[rank][moment], dealt);
  double seconds = 0;
  for (const auto& [stage, more] : steps_[rank][moment]) {
    if (left <= 0) return seconds;
    const int64_t bytes = dealt[stage] * more.bytes;
    const double part = std::min(1.0, static_cast<double>(left) / static_cast<double>(bytes));
    seconds += part * dealt[stage] * more.seconds;
    left -= bytes;
  }
  return left > 0 ? does_not_fit : seconds;
}

double WholeRecompute::at_least_s(size_t rank, const Dealt& dealt) const {
  if (!is_known(rank, dealt)) return 0;
  double seconds = 0;
  for (size_t moment = 0; moment < moments_[rank].size(); ++moment)
    seconds = std::max(seconds, relaxed_s(rank, moment, dealt));
  return (1 - part_rounding) * seconds / speeds_.relative()[rank];
}

bool WholeRecompute::is_known(size_t rank, const Dealt& dealt) const {
  return !moments_[rank].empty() && std::accumulate(dealt.begin(), dealt.end(), 0) <= most_units;
}

double WholeRecompute::seconds(size_t rank, const Dealt& dealt) const {
  if (!is_known(rank, dealt)) return 0;
  const auto [found, fresh] = known_[rank].try_emplace(dealt);
  if (fresh) found->second = least_s(rank, dealt);
  return found->second;
}

/// The ways to deal a rank's units out to its stages, one after the other.
class WholeRecompute::Dealing {
 public:
  using Way = std::function<void(const Dealt&)>;
  Dealing(const WholeRecompute& of, size_t rank, const SplitBox& box, const Way& way)
      : of_(of), rank_(rank), stages_(of.stages_[rank]), box_(box), way_(way) {
    for (size_t i = stages_.size(); i-- > 0;)
      units_behind_.push_back({units_behind_.back().first + box.stages.low[stages_[i]],
                               units_behind_.back().second + box.stages.high[stages_[i]]});
    std::ranges::reverse(units_behind_);
    for (const HeldAtOnce& moment : of.moments_[rank]) {
      std::vector<int64_t> rest{-of.limits_[rank]};
      for (size_t i = stages_.size(); i-- > 0;) {
        int64_t least = std::numeric_limits<int64_t>::max();
        for (int k = box.stages.low[stages_[i]]; k <= box.stages.high[stages_[i]]; ++k)
          least = std::min(least, of.given(moment, stages_[i], k));
        rest.push_back(rest.back() + least);
      }
      std::ranges::reverse(rest);
      rest_.push_back(std::move(rest));
    }
  }

  /// False: there are too many.
  bool run() {
    deal(0, std::vector<int64_t>(rest_.size(), 0));
    return steps_ <= most_dealt;
  }

 private:
  void deal(int units, const std::vector<int64_t>& given) {
    const size_t i = dealt_.size();
    if (++steps_ > most_dealt) return;
    if (i == stages_.size()) return way_(dealt_);
    for (int k = box_.stages.low[stages_[i]]; k <= box_.stages.high[stages_[i]]; ++k) {
      const auto& [least, most] = units_behind_[i + 1];
      if (units + k + least > box_.ranks.high[rank_]) break;
      if (units + k + most < box_.ranks.low[rank_]) continue;
      std::vector<int64_t> next = given;
      bool fits = true;
      for (size_t m = 0; m < next.size(); ++m) {
        next[m] += of_.given(of_.moments_[rank_][m], stages_[i], k);
        fits = fits && next[m] + rest_[m][i + 1] <= 0;
      }
      if (!fits) continue;
      dealt_.push_back(k);
      deal(units + k, next);
      dealt_.pop_back();
    }
  }

  const WholeRecompute& of_;
  const size_t rank_;
  const std::vector<size_t>& stages_;
  const SplitBox& box_;
  const Way& way_;
  std::vector<std::vector<int64_t>> rest_;  // by moment: of the stages from one on, less the limit
  std::vector<std::pair<int, int>> units_behind_{{0, 0}};  // the least and the most, likewise
  Dealt dealt_;
  int steps_ = 0;
};

bool WholeRecompute::each_way(size_t rank, const SplitBox& box, const Dealing::Way& way) const {
  return Dealing(*this, rank, box, way).run();
}

std::vector<MemoryPrices> WholeRecompute::broken(std::vector<std::optional<DealtHull>>& hulls,
                                                 const std::vector<double>& units_of_stage,
                                                 const std::vector<double>& seconds,
                                                 const std::vector<double>& owed,
                                                 double most) const {
  std::vector<MemoryPrices> broken;
  const double times = placement_.microbatches;
  for (size_t rank = 0; rank < hulls.size(); ++rank) {
    if (!hulls[rank]) continue;
    std::vector<double> units;
    double spent_s = 0;
    for (const size_t s : stages_[rank]) {
      units.push_back(units_of_stage[s]);
      spent_s += seconds[s];
    }
    const DealtHull::Plane plane = hulls[rank]->below(units);
    const double least_s =
        std::inner_product(units.begin(), units.end(), plane.slopes.begin(), plane.at_none);
    if (times * (least_s - spent_s) <= owed[rank] + paid_within * most) continue;
    MemoryPrices prices(units_of_stage.size());
    prices.rank = static_cast<int>(rank);
    for (size_t i = 0; i < units.size(); ++i) {
      const size_t s = stages_[rank][i];
      prices.unit[s] = times * plane.slopes[i];
      prices.second[s] = prices.whole[s] = times;
    }
    prices.limit = -times * plane.at_none;
    broken.push_back(std::move(prices));
  }
  return broken;
}

}  // namespace penstock
