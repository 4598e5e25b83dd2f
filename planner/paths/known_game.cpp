#include "planner/paths/known_game.hpp"

#include <algorithm>
#include <iterator>

namespace penstock {

namespace {

/// Relative: paths of another mixture that are shorter by no more are kept for the boxes inside.
constexpr double kept_within = 0.005;

}  // namespace

KnownGame::KnownGame(const ProgramPaths& paths, const SplitBox& box, const SharedUnits::Ways& ways,
                     const Known& known)
    : times_(paths.times()), memory_(paths.memory()), box_(box), shared_(paths.shared()) {
  const Times middle = this->middle();
  std::vector<Row> rows = known.rows;
  if (rows.empty())
    for (ProgramPaths::Path& path : paths.longest(middle))
      rows.push_back({std::make_shared<ProgramPaths::Path>(std::move(path)), nullptr});
  const auto path = std::ranges::find_if(rows, [](const Row& row) { return row.path != nullptr; });
  scale_s_ = weighted_sum(path->path->weights, middle);
  game_ = std::make_unique<PathGame>(box_, times_.rank_of_stage(), times_.units(), scale_s_,
                                     memory_ != nullptr);
  for (Row& row : rows) add_row(std::move(row));
  begin_places(known);
  for (size_t rank = 0; rank < ways.size(); ++rank) {
    hulls_.emplace_back();
    if (memory_ && ways[rank])
      hulls_.back().emplace(*ways[rank], scale_s_,
                            known.hulls.empty() ? DealtHull::Facets() : known.hulls[rank]);
  }
}

/// The bounds of the box, and what is known within them; the solver starts from where it ended.
void KnownGame::begin_places(const Known& known) {
  const bool any = !known.places.empty();
  PathGame::Basis basis{known.basis.limits, known.basis.rows, {}};
  size_t first = 0;  // of the stage's known places among all
  const auto add = [&](size_t stage, int unit, size_t number) {
    if (add_place(stage, unit) && any) basis.places.push_back(known.basis.places[first + number]);
  };
  known_.places.resize(static_cast<size_t>(times_.stages()));
  for (size_t stage = 1; stage < known_.places.size(); ++stage) {
    const int low = box_.begins.low[stage], high = box_.begins.high[stage];
    add(stage, low, 0);
    add(stage, high, 1);
    if (!any) continue;
    const std::vector<int>& units = known.places[stage];
    for (size_t i = 0; i < units.size(); ++i)
      if (units[i] > low && units[i] < high) add(stage, units[i], i);
    first += units.size();
  }
  if (any) game_->start(basis);
}

void KnownGame::solve() {
  for (Row& row : unpaid_) add_row(std::move(row));
  unpaid_.clear();
  solved_ = game_->solve();
}

void KnownGame::drop_far() {
  const std::vector<char> dropped = game_->drop_far(kept_within * scale_s_);
  size_t row = 0;
  std::erase_if(known_.rows, [&](const Row&) { return dropped[row++] != 0; });
}

/// A price for each rank whose memory the mixture breaks.
bool KnownGame::holds_too_much() {
  if (!memory_ || !solved_) return false;
  const std::vector<std::vector<SplitTimes::Place>> places = this->places();
  const std::vector<double> longer_s = game_->longer_s(), owed_s = game_->owed_s();
  std::vector<MemoryPrices> broken = memory_->broken(places, longer_s, owed_s, scale_s_);
  if (shared_) {
    const Times mean = times_.of(places);
    std::vector<double> units;
    for (int stage = 0; stage < times_.stages(); ++stage)
      units.push_back(mean[times_.at(SplitTime::units, stage)]);
    std::ranges::move(shared_->recompute().broken(hulls_, units, longer_s, owed_s, scale_s_),
                      std::back_inserter(broken));
  }
  for (const MemoryPrices& prices : broken)
    unpaid_.push_back({nullptr, std::make_shared<SplitMemory::Priced>(*memory_, prices)});
  return !unpaid_.empty();
}

Times KnownGame::middle() const {
  std::vector<std::vector<SplitTimes::Place>> middle;
  for (size_t stage = 0; stage < box_.begins.low.size(); ++stage)
    middle.push_back({{box_.begins.low[stage], 0.5}, {box_.begins.high[stage], 0.5}});
  return times_.of(middle);
}

double KnownGame::of_begin(const Row& row, size_t stage, int unit) const {
  return row.path ? times_.of_begin(row.path->weights, static_cast<int>(stage), unit)
                  : row.memory->of_begin(stage, unit);
}

bool KnownGame::add_place(size_t stage, int unit) {
  std::vector<int>& places = known_.places[stage];
  if (std::ranges::find(places, unit) != places.end()) return false;
  places.push_back(unit);
  all_places_.push_back({stage, unit});
  std::vector<double> values;
  for (const Row& row : known_.rows) values.push_back(of_begin(row, stage, unit));
  game_->add_place(static_cast<int>(stage), unit, values);
  return true;
}

void KnownGame::add_path(ProgramPaths::Path path) {
  add_row({std::make_shared<ProgramPaths::Path>(std::move(path)), nullptr});
}

void KnownGame::add_row(Row row) {
  std::vector<double> seconds;
  for (const auto& [stage, unit] : all_places_) seconds.push_back(of_begin(row, stage, unit));
  if (row.path) {
    const Times& weights = row.path->weights;
    game_->add_path(times_.of_ends(weights), seconds,
                    memory_ ? memory_->longer(times_, weights) : std::vector<double>{});
  } else {
    const MemoryPrices& prices = row.memory->prices();
    game_->add_memory(prices.rank, row.memory->of_ends(), seconds, prices.second);
  }
  known_.rows.push_back(std::move(row));
}

KnownGame::Mixed KnownGame::mixed() const {
  const std::vector<double> weights = game_->row_weights();
  Mixed mixed{Times(times_.size(), 0.0), MemoryPrices(static_cast<size_t>(times_.stages()))};
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const Row& row = known_.rows[i];
    if (!row.path) {
      mixed.prices.add(row.memory->prices(), weights[i]);
      continue;
    }
    for (size_t t = 0; t < mixed.path.size(); ++t)
      mixed.path[t] += weights[i] * row.path->weights[t];
  }
  if (memory_) mixed.prices.second = memory_->longer(times_, mixed.path);
  return mixed;
}

std::vector<ProgramPaths::Share> KnownGame::shares() const {
  const std::vector<double> weights = game_->row_weights();
  std::vector<ProgramPaths::Share> shares;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0 && known_.rows[i].path) shares.push_back({known_.rows[i].path, weights[i]});
  return shares;
}

std::vector<std::vector<SplitTimes::Place>> KnownGame::places() const {
  std::vector<std::vector<SplitTimes::Place>> mixture(known_.places.size());
  mixture[0] = {{0, 1.0}};
  const std::vector<double> weights = game_->place_weights();
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0)
      mixture[all_places_[i].first].push_back({all_places_[i].second, weights[i]});
  return mixture;
}

Times KnownGame::mixture() const {
  Times times = times_.of(places());
  if (memory_) memory_->lengthen(times_, game_->longer_s(), times);
  return times;
}

KnownGame::Known KnownGame::known(const Times& other) const {
  const std::vector<double> weights = game_->row_weights();
  const double near_s = game_->seconds() * (1 - kept_within);
  PathGame::Basis basis = game_->basis();
  Known known{{}, {}, known_.places, {std::move(basis.limits), {}, {}}};
  for (const auto& hull : hulls_)
    known.hulls.push_back(hull ? hull->facets() : DealtHull::Facets());
  for (size_t i = 0; i < weights.size(); ++i) {
    const Row& row = known_.rows[i];
    const bool matters =
        weights[i] > 0 || (row.path && weighted_sum(row.path->weights, other) > near_s);
    if (!matters) continue;
    known.rows.push_back(row);
    known.basis.rows.push_back(basis.rows[i]);
  }
  std::vector<std::vector<char>> of_stages(known_.places.size());
  for (size_t i = 0; i < all_places_.size(); ++i)
    of_stages[all_places_[i].first].push_back(basis.places[i]);
  for (const std::vector<char>& of : of_stages)
    known.basis.places.insert(known.basis.places.end(), of.begin(), of.end());
  return known;
}

}  // namespace penstock
