// Fitting the efficiencies of a device to times that were measured on it.
#pragma once

#include "estimate/device.hpp"
#include "graph/graph.hpp"

namespace penstock {

struct EfficiencyFit {
  DeviceSpec device;  // with the efficiencies and the launch that were fitted
  std::array<int, operator_classes> samples{};  // measured times that hold work of the class
  PerClass share{};  // of the measured time of F and B, by class, as the fit has it
  /// Sum of |estimated - measured| over the operators' F and B at all measured sizes, by the sum of
  /// the measured times: the estimate of the whole cannot be off by more.
  double residual = 0;
  double measured_s = 0, estimated_s = 0;  // those F and B together
};

/// Times of an operator are launches, and for each class of its work the ideal time by the class's
/// efficiency: linear in 1 / efficiency and in the launch, and fitted to all measured F, B, I and W
/// by least absolute deviations (pipeline/profile/least_deviations.hpp). Classes that the model
/// does not have, or whose time came out as 0, keep the device's own factor. The optimizer's
/// follows from its measured rate.
/// Throws InputError where the profile is itself an estimate, is of another model or another kind
/// of device, or measured nothing.
EfficiencyFit fit_efficiency(const Profile& measured, const Graph& graph, const DeviceSpec& device);

}  // namespace penstock
