#include "planner/open/part_bound.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock {

namespace {

/// Lengths that no path of the mixture passes may be infinite.
double passed_s(const std::vector<double>& shares, const std::vector<double>& lengths) {
  double sum_s = 0;
  for (size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0) sum_s += shares[i] * lengths[i];
  return sum_s;
}

}  // namespace

PartBound::PartBound(const StagedPaths& paths, const std::vector<ProgramPaths::Share>& mixture,
                     const SplitBox& box, const std::vector<PartBorder>& borders) {
  const SplitTimes& times = paths.program().times();
  Times weights(times.size(), 0.0);
  for (const auto& [path, share] : mixture)
    for (size_t i = 0; i < weights.size(); ++i) weights[i] += share * path->weights[i];
  for (int cut = 0; cut < times.stages(); ++cut) {
    const PartBorder& border = borders[static_cast<size_t>(cut)];
    shares_.push_back(border.nothing());
    for (const ProgramPaths::Share& of : mixture) follow(paths, of, cut, border);
  }
  add_behind(times, weights, box);
}

/// Adds what a path passes of the stages before the cut.
void PartBound::follow(const StagedPaths& paths, const ProgramPaths::Share& of, int cut,
                       const PartBorder& border) {
  ChainPart& shares = shares_.back();
  const auto before = [&](int node) { return paths.stage(node) < cut; };
  int entry = -1;
  const std::vector<int>& nodes = of.path->nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!before(nodes[i])) continue;
    const bool starts = i == 0 || !before(nodes[i - 1]);
    if (starts) entry = i == 0 ? -1 : nodes[i];
    const bool ends = i + 1 == nodes.size() || !before(nodes[i + 1]);
    if (ends) border.of(shares, entry, i + 1 == nodes.size() ? -1 : nodes[i]) += of.share;
  }
  const SplitTimes& times = paths.program().times();
  for (int stage = 0; stage < times.stages(); ++stage) {
    const auto rank = static_cast<size_t>(times.rank_of_stage()[static_cast<size_t>(stage)]);
    if (of.path->weights[times.at(SplitTime::optimizer, stage)] == 0) continue;
    shares.updates[rank] += of.share;
    break;
  }
}

/// Gradients over the cut are of the part, or left out.
void PartBound::add_behind(const SplitTimes& times, const Times& weights, const SplitBox& box) {
  const double never = std::numeric_limits<double>::infinity();
  const auto stages = static_cast<size_t>(times.stages());
  const auto units = static_cast<size_t>(times.units());
  const auto seconds = [&](SplitTime time, size_t stage, int begin, int end) {
    const size_t i = times.at(time, static_cast<int>(stage));
    return weights[i] == 0 ? 0.0 : weights[i] * times.of_stage(i, begin, end);
  };
  behind_.assign(stages + 1, std::vector<double>(units + 1, never));
  behind_[stages][units] = 0;
  for (size_t s = stages; s-- > 0;)
    for (int begin = box.begins.low[s]; begin <= box.begins.high[s]; ++begin) {
      double& least_s = behind_[s][static_cast<size_t>(begin)];
      const int high = std::min(begin + box.stages.high[s], times.units());
      for (int end = begin + box.stages.low[s]; end <= high; ++end) {
        double sum_s = behind_[s + 1][static_cast<size_t>(end)];
        if (sum_s == never) continue;
        if (s + 1 < stages) sum_s += seconds(SplitTime::gradients, s + 1, end, end);
        for (int kind = 0; kind < static_cast<int>(SplitTime::units); ++kind)
          sum_s += seconds(static_cast<SplitTime>(kind), s, begin, end);
        least_s = std::min(least_s, sum_s + seconds(SplitTime::activations, s, begin, begin));
      }
    }
}

double PartBound::least_s(const ChainPart& part, int cut, int unit) const {
  const ChainPart& shares = shares_[static_cast<size_t>(cut)];
  const double inside_s = shares.inside_s > 0 ? shares.inside_s * part.inside_s : 0.0;
  return passed_s(shares.exits, part.exits) + passed_s(shares.entries, part.entries) +
         passed_s(shares.through, part.through) + passed_s(shares.updates, part.updates) +
         inside_s + behind_[static_cast<size_t>(cut)][static_cast<size_t>(unit)];
}

}  // namespace penstock
