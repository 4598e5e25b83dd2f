// Ranks that are processes of one machine, or of several.
#pragma once

#include <memory>

#include "backend/communication/communicator.hpp"
#include "backend/communication/rendezvous.hpp"

namespace penstock {

/// Messages between ranks of one machine, and sums over such ranks, go through memory: the rank
/// that waits for a message copies it, out of the sender's tensor. All others go through `remote`.
/// A peer is gone when its process has ended. All ranks call it, pinned to their cores. Throws
/// PeerError.
std::unique_ptr<Communicator> make_local(const Seat& seat, std::unique_ptr<Communicator> remote);

}  // namespace penstock
