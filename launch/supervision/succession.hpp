// Decides who goes on in place of supervisors that are lost, and with whose copies: pure functions
// of who is left, and of the snapshots that they have.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launch/supervision/recovery.hpp"

namespace penstock {

/// Supervisors that are left go on together, and not those that they have lost sight of: more than
/// half of them do, or half with the lowest-numbered.
bool may_go_on(const std::set<int>& all, const std::set<int>& left);

/// The process that has each rank.
using Assignment = std::map<int, int>;

/// The ranks of processes that are not `alive` go to those that have none, both in order. Nothing
/// where there are too few.
std::optional<Assignment> assign(const Assignment& before, const std::set<int>& alive);

/// The ranks of another plan, in the order of the processes, which are no fewer.
Assignment assign_anew(int ranks, const std::set<int>& alive);

/// The process that keeps copies of that one's snapshots: at the same place on the next machine, or
/// the next on this one where there is no other. Nothing where no other has a rank. `machines`: a
/// number for each process's.
std::optional<int> partner_of(int process, const Assignment& assignment,
                              const std::map<int, int>& machines);

/// The snapshots that a process has in memory, by rank.
using StatesHeld = std::map<int, StepsHeld>;
using HeldByProcess = std::map<int, StatesHeld>;  // by process

/// Ranks whose numbers differ by a multiple of `alike` have the same state; 0: none have.
/// By rank, the steps before which any process has a snapshot of it; of another that is alike only
/// where there is none of its own, for what a rank has not done it has not reported.
std::vector<StepsHeld> steps_of_ranks(const HeldByProcess& holders, int ranks, int alike);

/// Process `from` has the state of rank `held`, which rank `rank` of process `to` goes on with.
struct Handover {
  int from = 0, held = 0;
  int to = 0, rank = 0;
  auto operator<=>(const Handover&) const = default;
};
/// The snapshots that processes have to be given, so that each has those of its ranks: a rank's own
/// where there is one. Nothing where nobody has one of a rank.
std::optional<std::vector<Handover>> handovers(const HeldByProcess& holders, const Assignment& next,
                                               int64_t step, int alike);

/// The first process, in order, with a snapshot of that rank, its own before one of another that is
/// alike; nothing where nobody has one.
struct Source {
  int process = 0, held = 0;
};
std::optional<Source> find_source(const HeldByProcess& holders, int rank, int64_t step, int alike);

}  // namespace penstock
