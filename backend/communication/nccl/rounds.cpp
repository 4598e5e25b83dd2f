#include "backend/communication/nccl/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "pipeline/plan/sharing.hpp"

namespace penstock {

std::string to_string(const LaneKey& lane) {
  return fmt::format("{}-{}-{}", lane.from, lane.to, lane.gradients ? "gradients" : "activations");
}

namespace {

bool updates(const Program& lowered) {
  return std::ranges::any_of(lowered.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::find(actions, Kind::optimizer, &Action::kind) != actions.end();
  });
}

/// The lanes within a replica: gradients to the owner, parameters from it.
std::vector<LaneKey> shared_lanes(const Program& lowered, const Slicing& slicing) {
  std::vector<LaneKey> lanes;
  for (const Slicing::Shared& shared : slicing.shared) {
    if (!shared.transmitted) continue;
    const Holders holders = holders_of(shared, lowered.rank_of_stage);
    for (const int other : holders.others) {
      lanes.push_back({other, holders.owner, true});
      lanes.push_back({holders.owner, other, false});
    }
  }
  return lanes;
}

}  // namespace

std::vector<LaneKey> lanes_of(const Program& lowered, int replicas, const Slicing& slicing,
                              int parts) {
  std::set<LaneKey> of_pipeline;
  const int ranks = static_cast<int>(lowered.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Action& action : lowered.ranks[rank]) {
      if (!is_send(action.kind)) continue;
      const int peer = lowered.rank_of_stage[peer_stage(action)];
      of_pipeline.insert({rank, peer, action.kind == Kind::send_backward});
    }
  }
  if (updates(lowered)) {
    for (const LaneKey& lane : shared_lanes(lowered, slicing)) of_pipeline.insert(lane);
  }
  std::set<LaneKey> lanes;
  for (const LaneKey& lane : of_pipeline) {
    for (int pipeline = 0; pipeline < replicas * parts; ++pipeline) {
      const int first = pipeline / parts * ranks * parts + pipeline % parts;
      lanes.insert({first + lane.from * parts, first + lane.to * parts, lane.gradients});
    }
  }
  return {lanes.begin(), lanes.end()};
}

int ctas_of(const std::vector<LaneKey>& lanes) {
  std::map<int, int> ends;  // lanes by rank
  int most = 1;
  for (const LaneKey& lane : lanes) most = std::max({most, ++ends[lane.from], ++ends[lane.to]});
  return std::clamp(16 / most, 1, 4);
}

std::vector<std::vector<LaneKey>> rounds_of(std::vector<LaneKey> lanes) {
  std::ranges::sort(lanes);
  std::vector<std::vector<LaneKey>> rounds;
  std::vector<std::set<int>> busy;  // ranks, by round
  for (const LaneKey& lane : lanes) {
    size_t round = 0;
    while (round < rounds.size() &&
           (busy[round].contains(lane.from) || busy[round].contains(lane.to))) {
      ++round;
    }
    if (round == rounds.size()) {
      rounds.emplace_back();
      busy.emplace_back();
    }
    rounds[round].push_back(lane);
    busy[round].insert({lane.from, lane.to});
  }
  return rounds;
}

}  // namespace penstock
