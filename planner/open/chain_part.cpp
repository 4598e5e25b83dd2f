#include "planner/open/chain_part.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

namespace penstock {

namespace {

constexpr double no_path = -std::numeric_limits<double>::infinity();

bool is_of_cut(SplitTime time) {
  return time == SplitTime::activations || time == SplitTime::gradients;
}

SplitTime kind_of(int time, int stages) { return static_cast<SplitTime>(time / stages); }

/// The stage of a node's own work; -1: of several.
int stage_of(const ProgramPaths::Node& node, int stages) {
  int stage = -1;
  for (const int time : node.times) {
    if (is_of_cut(kind_of(time, stages))) continue;
    if (stage >= 0 && time % stages != stage) return -1;
    stage = time % stages;
  }
  return stage;
}

/// By how much one is longer than the other at most; no_path where there are none.
double most_longer(const std::vector<double>& a, const std::vector<double>& b) {
  double longer = no_path;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > no_path) longer = std::max(longer, a[i] - b[i]);
  return longer;
}

}  // namespace

StagedPaths::StagedPaths(const ProgramPaths& paths) : program_(paths) {
  for (const ProgramPaths::Node& node : paths.nodes())
    stages_.push_back(stage_of(node, paths.times().stages()));
}

bool StagedPaths::apply_to(const ProgramPaths& paths) {
  return std::ranges::all_of(paths.nodes(), [&](const ProgramPaths::Node& node) {
    return stage_of(node, paths.times().stages()) >= 0;
  });
}

int StagedPaths::most_crossing() const {
  std::vector<int> more(static_cast<size_t>(program_.times().stages()) + 1, 0);
  for (size_t node = 0; node < stages_.size(); ++node)
    for (const ProgramPaths::Follows& from : program_.nodes()[node].follows) {
      const auto [low, high] = std::minmax({stages_[node], stage(from.node)});
      ++more[static_cast<size_t>(low)];
      --more[static_cast<size_t>(high)];
    }
  std::partial_sum(more.begin(), more.end(), more.begin());
  return *std::ranges::max_element(more);
}

PartBorder::PartBorder(const StagedPaths& paths, StageRange stages)
    : ranks_(paths.program().ranks()), stages_(stages) {
  const auto& nodes = paths.program().nodes();
  const auto holds = [&](int node) { return stages.holds(paths.stage(node)); };
  std::set<int> exits, entries;
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
    const auto follows = nodes[static_cast<size_t>(node)].follows;
    if (!holds(node) && follows.empty()) others_start_ = true;
    if (!holds(node) && paths.program().is_last(node)) others_end_ = true;
    for (const ProgramPaths::Follows& from : follows) {
      if (holds(from.node) == holds(node)) continue;
      if (holds(node))
        entries.insert(node);
      else
        exits.insert(from.node);
    }
  }
  exits_.assign(exits.begin(), exits.end());
  entries_.assign(entries.begin(), entries.end());
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    std::vector<char> reached(nodes.size(), 0);
    reached[static_cast<size_t>(entries_[entry])] = 1;
    for (size_t node = static_cast<size_t>(entries_[entry]) + 1; node < nodes.size(); ++node)
      for (const ProgramPaths::Follows& from : nodes[node].follows)
        if (holds(static_cast<int>(node)) && reached[static_cast<size_t>(from.node)])
          reached[node] = 1;
    for (size_t exit = 0; exit < exits_.size(); ++exit)
      if (reached[static_cast<size_t>(exits_[exit])])
        through_.emplace_back(static_cast<int>(entry), static_cast<int>(exit));
  }
}

ChainPart PartBorder::none() const {
  return {{}, {}, {}, no_path, std::vector<double>(static_cast<size_t>(ranks_), 0.0)};
}

ChainPart PartBorder::nothing() const {
  ChainPart nothing = none();
  nothing.exits.assign(exits_.size(), 0.0);
  nothing.entries.assign(entries_.size(), 0.0);
  nothing.through.assign(through_.size(), 0.0);
  nothing.inside_s = 0;
  return nothing;
}

double& PartBorder::of(ChainPart& part, int entry, int exit) const {
  const auto place = [](const auto& in, const auto& of) {
    return static_cast<size_t>(std::ranges::find(in, of) - in.begin());
  };
  if (entry < 0) return exit < 0 ? part.inside_s : part.exits[place(exits_, exit)];
  const size_t from = place(entries_, entry);
  if (exit < 0) return part.entries[from];
  const std::pair<int, int> way(static_cast<int>(from), static_cast<int>(place(exits_, exit)));
  return part.through[place(through_, way)];
}

bool PartBorder::no_longer(const ChainPart& a, const ChainPart& b, double more_s) const {
  const double updates_s = most_longer(a.updates, b.updates);
  const double exits_s = most_longer(a.exits, b.exits);
  const double entries_s = most_longer(a.entries, b.entries);
  if (exits_s + entries_s + updates_s > more_s) return false;
  if (others_end_ && exits_s + updates_s > more_s) return false;
  if (others_start_ && entries_s + updates_s > more_s) return false;
  if (others_start_ && others_end_ && updates_s > more_s) return false;
  if (a.inside_s - b.inside_s + updates_s > more_s) return false;
  for (size_t i = 0; i < a.through.size(); ++i)
    if (a.through[i] > b.through[i]) return false;
  return true;
}

PartMeeting::PartMeeting(const StagedPaths& paths, Borders parts, StageRange nodes,
                         const PartBorder& all)
    : borders_(std::move(parts)), nodes_(nodes), all_(all) {
  add_places(paths);
  for (Place& place : places_) connect(paths, place);
  for (const int node : all.exits_) exits_.push_back(find(node, false));
  for (const int node : all.entries_) {
    const int entry = find(node, true);
    entries_.push_back(entry >= 0 ? entry : find(node, false));
  }
}

void PartMeeting::add_places(const StagedPaths& paths) {
  const auto add = [&](Place::Kind kind, int node, size_t part, size_t number) {
    places_.push_back({kind, node, static_cast<int>(part), static_cast<int>(number)});
  };
  for (size_t part = 0; part < borders_.size(); ++part) {
    const PartBorder& border = *borders_[part];
    for (size_t i = 0; i < border.entries_.size(); ++i)
      add(Place::Kind::entry, border.entries_[i], part, i);
    for (size_t i = 0; i < border.exits_.size(); ++i)
      add(Place::Kind::exit, border.exits_[i], part, i);
  }
  for (int node = 0; node < paths.program().actions(); ++node)
    if (nodes_.holds(paths.stage(node))) add(Place::Kind::node, node, 0, 0);
  std::ranges::sort(places_, {}, [](const Place& at) { return std::tuple(at.node, at.kind); });
}

/// Its number among the seconds.
int PartMeeting::time(int of) {
  const auto at = std::ranges::find(times_, of);
  if (at == times_.end()) {
    times_.push_back(of);
    return static_cast<int>(times_.size()) - 1;
  }
  return static_cast<int>(at - times_.begin());
}

int PartMeeting::find(int node, bool entry) const {
  const auto at = std::ranges::find_if(places_, [&](const Place& place) {
    return place.node == node && (place.kind == Place::Kind::entry) == entry;
  });
  return at == places_.end() ? -1 : static_cast<int>(at - places_.begin());
}

void PartMeeting::connect_exit(Place& place) const {
  const PartBorder& border = *borders_[static_cast<size_t>(place.part)];
  for (size_t i = 0; i < border.through_.size(); ++i) {
    const auto [entry, exit] = border.through_[i];
    if (exit != place.number) continue;
    const int node = border.entries_[static_cast<size_t>(entry)];
    place.edges.push_back({find(node, true), static_cast<int>(i)});
  }
}

/// Transfers over cuts that are not known take nothing.
void PartMeeting::connect(const StagedPaths& paths, Place& place) {
  if (place.kind == Place::Kind::exit) return connect_exit(place);
  const ProgramPaths::Node& node = paths.program().nodes()[static_cast<size_t>(place.node)];
  const bool entry = place.kind == Place::Kind::entry;
  const auto own = [&](int stage) {
    return entry && borders_[static_cast<size_t>(place.part)]->stages_.holds(stage);
  };
  for (const ProgramPaths::Follows& from : node.follows) {
    const int at = own(paths.stage(from.node)) ? -1 : find(from.node, false);
    if (at < 0) continue;
    const int cut = from.transfer < 0 ? -1 : from.transfer % paths.program().times().stages();
    const bool known = cut >= 0 && (cut == nodes_.from || cut == nodes_.to);
    place.edges.push_back({at, known ? time(from.transfer) : -1});
  }
  if (entry) return;
  place.starts = node.follows.empty();
  place.ends = paths.program().is_last(place.node);
  for (const int time : node.times) place.times.push_back(this->time(time));
}

std::vector<double> PartMeeting::seconds(const SplitTimes& times, int begin, int end) const {
  std::vector<double> seconds;
  seconds.reserve(times_.size());
  for (const int time : times_) {
    const bool before = time % times.stages() == nodes_.from;
    seconds.push_back(times.of_stage(static_cast<size_t>(time), before ? begin : end, end));
  }
  return seconds;
}

int64_t PartMeeting::steps() const {
  int64_t steps = 0;
  for (const Place& place : places_)
    steps += 1 + static_cast<int64_t>(place.edges.size() + place.times.size());
  return (1 + static_cast<int64_t>(entries_.size())) * steps;
}

/// Lengths up to each place, from one or from the start of the program; returns that to the end.
double PartMeeting::follow(const Parts& parts, const std::vector<double>& seconds, int from,
                           std::vector<double>& lengths) const {
  double end_s = no_path;
  lengths.assign(places_.size(), no_path);
  const bool starts = from == from_start;
  for (size_t i = starts ? 0 : static_cast<size_t>(from); i < places_.size(); ++i) {
    const Place& place = places_[i];
    const ChainPart& part = *parts[static_cast<size_t>(place.part)];
    const auto number = static_cast<size_t>(place.number);
    const bool exit = place.kind == Place::Kind::exit;
    double length = no_path;
    if (starts && exit) length = part.exits[number];
    if (static_cast<int>(i) == from || (starts && place.starts)) length = 0;
    for (const Edge& edge : place.edges) {
      const auto time = static_cast<size_t>(edge.time);
      const double more_s = exit ? part.through[time] : edge.time < 0 ? 0.0 : seconds[time];
      length = std::max(length, lengths[static_cast<size_t>(edge.from)] + more_s);
    }
    for (const int time : place.times) length += seconds[static_cast<size_t>(time)];
    if (place.kind == Place::Kind::entry) end_s = std::max(end_s, length + part.entries[number]);
    if (place.ends) end_s = std::max(end_s, length);
    lengths[i] = length;
  }
  return end_s;
}

ChainPart PartMeeting::joined(const Parts& parts, const std::vector<double>& seconds) const {
  ChainPart joined = all_.none();
  std::vector<double> lengths;
  joined.inside_s = follow(parts, seconds, from_start, lengths);
  for (const ChainPart* part : parts) {
    joined.inside_s = std::max(joined.inside_s, part->inside_s);
    for (size_t r = 0; r < joined.updates.size(); ++r) joined.updates[r] += part->updates[r];
  }
  for (const int place : exits_) joined.exits.push_back(lengths[static_cast<size_t>(place)]);
  size_t next = 0;
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    joined.entries.push_back(follow(parts, seconds, entries_[entry], lengths));
    for (; next < all_.through_.size(); ++next) {
      const auto [from, exit] = all_.through_[next];
      if (from != static_cast<int>(entry)) break;
      const int place = exits_[static_cast<size_t>(exit)];
      joined.through.push_back(lengths[static_cast<size_t>(place)]);
    }
  }
  return joined;
}

}  // namespace penstock
