// Ranks that are processes, over c10d's TCP store and Gloo.
#pragma once

#include <memory>

#include "backend/communication/communicator.hpp"
#include "backend/communication/shared_store.hpp"

namespace penstock {

/// A store over TCP. `port` becomes the one that it listens on.
std::unique_ptr<SharedStore> open_tcp_store(StoreAddress& address);

/// All ranks call it with stores of the same address and prefix. Transfers have no timeout: that a
/// peer is gone shows by its closed socket. `address` is this machine's, as the other ranks know it
/// (backend/communication/interface.hpp). Set the process's cores before: Gloo's thread inherits
/// them, and takes the normal scheduling policy.
std::unique_ptr<Communicator> make_gloo(SharedStore& store, int rank, int size,
                                        const std::string& address = "127.0.0.1");

}  // namespace penstock
