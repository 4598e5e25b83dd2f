// Sums over two ranks, as gradients are summed, measured through the executor's own communicator.
#pragma once

#include <string>

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Ranks 0 and 1 measure, the others wait; all ranks call it and get the same result, of the kind
/// `kind`: latency_s + bytes / bandwidth for a sum of so many bytes of float32 over two idle ranks;
/// sender_s_per_byte and receiver_s_per_byte, which are equal, are the compute that it costs each
/// of them where both compute meanwhile. Sizes go up to that of a large bucket; none is measured
/// beyond one of half a second. Two ranks at least. Throws PeerError.
LinkCost measure_sums(Communicator& communicator, ComputeDevice& device, const std::string& kind);

}  // namespace penstock::profiler
