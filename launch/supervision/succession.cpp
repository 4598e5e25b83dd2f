#include "launch/supervision/succession.hpp"

#include <algorithm>
#include <iterator>

namespace penstock {

namespace {

bool same_state(int one, int other, int alike) {
  return one == other || (alike > 0 && one % alike == other % alike);
}

}  // namespace

bool may_go_on(const std::set<int>& all, const std::set<int>& left) {
  std::set<int> known;
  std::ranges::set_intersection(all, left, std::inserter(known, known.end()));
  if (2 * known.size() != all.size()) return 2 * known.size() > all.size();
  return all.empty() || known.contains(*all.begin());
}

std::optional<Assignment> assign(const Assignment& before, const std::set<int>& alive) {
  std::set<int> spares = alive;
  for (const auto& [rank, process] : before) spares.erase(process);
  Assignment next = before;
  for (auto& [rank, process] : next) {
    if (alive.contains(process)) continue;
    if (spares.empty()) return std::nullopt;
    process = spares.extract(spares.begin()).value();
  }
  return next;
}

Assignment assign_anew(int ranks, const std::set<int>& alive) {
  Assignment next;
  for (const int process : alive) {
    const auto rank = static_cast<int>(next.size());
    if (rank < ranks) next[rank] = process;
  }
  return next;
}

std::optional<int> partner_of(int process, const Assignment& assignment,
                              const std::map<int, int>& machines) {
  std::map<int, std::vector<int>> by_machine;
  std::set<int> processes;
  for (const auto& [rank, owner] : assignment) processes.insert(owner);
  for (const int one : processes) by_machine[machines.at(one)].push_back(one);
  const auto here = by_machine.find(machines.at(process));
  if (here == by_machine.end() || processes.size() < 2) return std::nullopt;
  const auto place =
      static_cast<size_t>(std::ranges::find(here->second, process) - here->second.begin());
  if (by_machine.size() == 1) return here->second[(place + 1) % here->second.size()];
  const auto next = std::next(here) == by_machine.end() ? by_machine.begin() : std::next(here);
  return next->second[place % next->second.size()];
}

std::vector<StepsHeld> steps_of_ranks(const HeldByProcess& holders, int ranks, int alike) {
  const auto size = static_cast<size_t>(ranks);
  std::vector<StepsHeld> own(size), others(size);
  for (const auto& [process, states] : holders) {
    for (const auto& [held, steps] : states) {
      for (int rank = 0; rank < ranks; ++rank) {
        if (!same_state(held, rank, alike)) continue;
        (held == rank ? own : others)[static_cast<size_t>(rank)].insert(steps.begin(), steps.end());
      }
    }
  }
  for (size_t rank = 0; rank < size; ++rank)
    if (own[rank].empty()) own[rank] = others[rank];
  return own;
}

std::optional<Source> find_source(const HeldByProcess& holders, int rank, int64_t step, int alike) {
  std::optional<Source> other;
  for (const auto& [process, states] : holders) {
    for (const auto& [held, steps] : states) {
      if (!steps.contains(step) || !same_state(held, rank, alike)) continue;
      if (held == rank) return Source{process, held};
      if (!other) other = {process, held};
    }
  }
  return other;
}

std::optional<std::vector<Handover>> handovers(const HeldByProcess& holders, const Assignment& next,
                                               int64_t step, int alike) {
  std::vector<Handover> found;
  for (const auto& [rank, process] : next) {
    const auto own = holders.find(process);
    if (own != holders.end() && own->second.contains(rank) && own->second.at(rank).contains(step))
      continue;
    const std::optional<Source> source = find_source(holders, rank, step, alike);
    if (!source) return std::nullopt;
    found.push_back({source->process, source->held, process, rank});
  }
  return found;
}

}  // namespace penstock
