// Lower bounds on the step time of a chain of units, one stage per rank, whole backwards (B).
//
// Valid for the simulator because every bound is the length of a path of actions and transfers that
// must follow one another, counted at no more than their simulated cost:
//  - Ranks run their program in order, so the actions of a rank follow one another; waiting,
//    posting, overheads that are not counted here and compute that a transfer costs its ranks only
//    add to it.
//  - F of a stage starts after the F of the stage before it and the transfer between them, B after
//    the B of the stage behind it and its transfer. A transfer takes its full time whatever the
//    mode (eager, posted, rendezvous); a busy channel or a late receive only delays it. Where a cut
//    is not `linked` no value is sure to cross it for every split, and no path does either.
//  - Microbatch 0 differs (its first run is slower, it stores gradients that the others add), so
//    sums over m microbatches are first + (m - 1) x other, never m x other.
//  - An operator counts once, in its own unit. Recomputing constants or parameter-derived values in
//    several stages, and holding a parameter in several, only adds.
//  - The compute that a transfer costs its ranks falls on their next action: of what a rank sends
//    between two of its actions on the second of them, of RECV_F(0) on F(0), of all that a rank
//    sends and receives before its last B on some action up to that.
//  - No rank starts OPT before every rank has ended its last B (the loss of all is checked before
//    anything is updated), so the longest OPT of a rank follows any path. Between the two rank 0
//    runs the REDUCE_GRAD that every split needs; a path that ends in the last B of rank 0 goes on
//    with it.
//
// All times in seconds. Results carry the rounding of their sums, a few 1e-16 relative; who
// compares them with a simulated time leaves room for that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace penstock {

/// The least that any split of a space takes, whatever its ranks recompute.
struct SplitNeeds {
  double seconds = 0;
  int64_t bytes = 0;  // of its fullest rank
};

/// Compute in seconds that one microbatch crossing a cut costs the rank before it (activations
/// sent, gradients received) and the one behind it.
struct CutCompute {
  double send_forward_s = 0, receive_backward_s = 0;  // the rank before
  double receive_forward_s = 0, send_backward_s = 0;  // the rank behind
};

/// Costs of the units of a chain, per microbatch, in seconds; backward is whole (B).
/// Beyond the first four, an empty vector means zero for all (`linked`: true for all).
struct ChainCosts {
  std::vector<double> forward_s, backward_s;          // per unit, microbatches after the first
  std::vector<double> cut_forward_s, cut_backward_s;  // transfer after unit i, for i < units - 1
  std::vector<double> first_forward_s,
      first_backward_s;                 // microbatch 0 takes that much more, or less
  std::vector<double> optimizer_s;      // per unit, once per step
  std::vector<CutCompute> cut_compute;  // like cut_forward_s
  std::vector<char> linked;  // cut after unit i: each microbatch's F and B cross it in any split
  std::vector<double> weight_s;  // W per unit; then backward_s is I
  /// Per unit B, and I with W, where a stage runs either, all of its units alike; then backward_s
  /// and weight_s are of what is faster for the unit alone.
  std::vector<double> whole_s, parts_s;
  double weight_action_s = 0;         // of each W of a stage, whatever it holds
  std::vector<double> unit_reduce_s;  // per unit, once per step: its gradients' way over replicas
  double reduce_s = 0;         // REDUCE_GRAD of rank 0, whatever the split; counts if all is linked
  double action_s = 0;         // of each F and B of a stage, whatever it holds
  double first_action_s = 0;   // microbatch 0 takes that much more of it, or less
  std::vector<double> host_s;  // per unit: of a host that runs ahead, to issue its F and backward
  double host_actions_s = 0;   // of a stage beside that, for the same
  double propagation_s = 0;    // part of a transfer that leaves its channel free for the next

  int units() const { return static_cast<int>(forward_s.size()); }
  bool all_linked() const {
    return std::ranges::all_of(linked, [](char cut) { return cut != 0; });
  }
};

}  // namespace penstock
