// Estimating a profile without a device: costs of a model on hardware of which only the figures
// are known.
#pragma once

#include <string>

#include "estimate/device.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// Roofline (Williams, Waterman, Patterson, "Roofline", CACM 52, 2009) for each operator and
/// action: the longer of FLOPs at the class's efficiency of the peak and bytes at that of the
/// bandwidth, and a launch (estimate/work.hpp says of what); bytes held as estimate/memory.hpp
/// says. For every divisor of the global batch that the model allows and of which every unit alone,
/// with parameters, gradients and optimizer state, fits in the device's memory. The optimizer,
/// accumulation and clearing move bytes at the class's efficiency. Reading data, hand-offs and the
/// first microbatch's excess are taken as free. The same arguments give the same profile to the
/// last bit; `device.details` says `source: estimate` and the efficiencies.
/// Throws InputError for a dtype that the device has no figure for, a batch without a divisor that
/// the model allows, a unit that is larger than the device.
Profile estimate(const Graph& graph, const Job& job, const DeviceSpec& device);

/// Costs of the ranks of tensor groups that group_graphs (pipeline/sharding/group_graphs.hpp) gives
/// for the same sizes of microbatches, what goes between them left out. Throws InputError as
/// `estimate`, and for pins that cannot be.
std::vector<GroupCosts> estimate_groups(const Graph& graph, const Job& job,
                                        const DeviceSpec& device, const std::vector<int>& parts,
                                        const sharding::Pins& asked);

/// The note that `profile` and `plan` print on an estimated profile: from which figures, and how
/// far off the fit was; empty for a measured one.
std::string estimate_note(const Profile& profile);

}  // namespace penstock
