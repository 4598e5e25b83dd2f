// Ranks that are processes of one machine, or of several.
#pragma once

#include <memory>

#include "backend/communication/communicator.hpp"
#include "backend/communication/rendezvous.hpp"
#include "backend/communication/spare_time.hpp"

namespace penstock {

/// Messages between ranks of one machine, and sums over such ranks, go through memory: the rank
/// that waits for a message copies it, out of the sender's tensor. All others go through `remote`.
/// A peer is gone when its process has ended. Who waits leaves its core to the work that `spare`,
/// where given, which outlives it, knows of. All ranks call it, pinned to their cores. Throws
/// PeerError.
std::unique_ptr<Communicator> make_local(const Seat& seat, std::unique_ptr<Communicator> remote,
                                         const SpareTime* spare = nullptr);

}  // namespace penstock
