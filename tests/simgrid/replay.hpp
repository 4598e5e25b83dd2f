// A program run by SimGrid instead of by our engine: the second opinion of tests and benches.
//
// An actor per rank takes its actions in order; an actor per channel (sending rank, receiving rank,
// direction) sends the channel's messages in order, one at a time. This is our eager mode:
//
//   SEND      tells the channel's actor that the message is there, and goes on
//   channel   waits until the next message is there, transfers it, says that it has moved
//   RECV      only posts
//   F, B, I   waits for the messages of its stage and microbatch that were posted, and what they
//             still propagate, then sleeps for its time; W and OVERLAP_F_B likewise
//
// Time passes in two places only: compute is a sleep (exact seconds, where a host's speed would
// round to SimGrid's unit of work), a transfer is a Comm on a route through the channel's wire and
// whatever it shares. Hand-overs between actors are semaphores and take no time.
//
// A transfer in SimGrid 3.32, found by small experiments (shared_links_test.cpp has
// them) and set so that `latency + bytes / bandwidth` results:
//
//   network/model:CM02           the fluid max-min model; the default LV08 is the same model with
//                                other factors
//   network/bandwidth-factor:1   LV08 takes 0.97 of a link's bandwidth
//   network/latency-factor:1     LV08 takes 13.01 times its latency
//   network/TCP-gamma:0          otherwise a flow is bounded by a TCP window over twice the latency
//   network/crosstraffic:0       otherwise a flow takes 5 % of its rate on the way back, too
//   network/weight-S:0           otherwise competing flows weigh S / bandwidth of their links
//   surf/precision:1e-12         seconds; events closer together than this happen at once, so a
//                                chain of n events may end n * 1e-12 s early (default 1e-9)
//   maxmin/precision:1e-9        bytes per second; rates below it are nothing (default 1e-5)
//
// Shared links. The latency comes first and uses no bandwidth. After it the flow takes part in
// sharing, which is computed anew whenever a flow begins or ends: progressive filling, where a flow
// grows until it meets its own wire's bandwidth or a shared link that is full; what bounded flows
// leave is shared among the others of that link. With weight-S:0 flows that compete are weighted by
// 1 / latency of their routes, as TCP would by round-trip time, and only flows without latency
// equally. Plain max-min fairness therefore needs the latency apart from the route: where anything
// is shared the channel's actor sleeps for it and transfers over wires without latency.
#pragma once

#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"
#include "tests/simgrid/platform.hpp"

namespace penstock::testing {

/// Seconds until the last rank has done its last action. SimGrid's engine lives once per process:
/// call this once, or in a child (child.hpp). `lowered` consists of F, B, I, W, OVERLAP_F_B, SEND
/// and RECV, and every RECV is needed by an action after it; throws std::invalid_argument
/// otherwise. A program that cannot finish ends the process with SimGrid's own report of the
/// deadlock.
double simgrid_makespan_s(const Program& lowered, const Costs& costs, const Platform& platform);

}  // namespace penstock::testing
