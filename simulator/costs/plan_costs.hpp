// From a profile to the costs of a plan's stages.
#pragma once

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/memory/value_lives.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

/// Costs of the stages of `slicing` at plan.microbatch: sums over the measured operators plus
/// accumulation, loss, overheads, optimizer; memory of parameters, gradients and optimizer state,
/// of a microbatch (stage_memory.hpp), of messages. Times are those of the profiled device, divided
/// by the speed of the cluster's (of replicas the slowest), on the cores that there are
/// (core_use.hpp); ranks sum gradients in the buckets that the plan asks for, by the cluster's
/// algorithm. Of a plan with tensor groups `model` is what each of their ranks runs, `profile` that
/// of group_profile.hpp, the cluster a grouped one. Throws InputError if the profile is of another
/// model or did not measure that microbatch size (naming those it did). `lives`: of the model at
/// that size, where they are known.
Costs plan_costs(const Plan& plan, const Graph& model, const Slicing& slicing,
                 const Profile& profile, const Cluster* cluster = nullptr,
                 const ValueLives* lives = nullptr);

/// The same stage on a device that computes so many times as fast; its host is as before.
void speed_up(StageCosts& costs, double times);

/// The cluster's where given, else equal links like the one between ranks that the profile
/// measured, beside compute where it has that. Throws InputError where there is neither.
Network plan_network(const Profile& profile, const Cluster* cluster);

/// The link that the profile, which has one, measured: `gloo-busy`, beside compute, where there is
/// that. A fit without a slope (small messages, a noisy machine) takes the bandwidth of the idle
/// link.
LinkCost link_during_step(const Profile& profile);

/// The links without a cluster of messages between idle ranks, and of the rounds of an all-reduce
/// (as measured, where the profile has that); free where none is known.
Link message_link(const Profile& profile);
Link sum_link(const Profile& profile);
/// Do such ranks, all of one machine or not, have a reduce-scatter, which is half of an all-reduce?
/// Gloo's is a whole one (pytorch#149869).
bool has_reduce_scatter(const Profile& profile, const Cluster* cluster, bool one_machine);
/// Can sums run beside compute? Ranks of one machine sum when they wait for it.
bool sums_overlap(const Profile& profile, const Cluster* cluster);
/// Seconds of a rank's compute that a sum takes beside it, per byte that the rank sends.
double sum_compute_s_per_byte(const Profile& profile);

/// A link at least as good as that of any sum or message between two ranks; free where none is
/// known.
Link reduce_link(const Profile& profile, const Cluster* cluster);

}  // namespace penstock
