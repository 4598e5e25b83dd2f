// Ranks that are processes, over c10d's TCP store and Gloo.
#pragma once

#include <memory>

#include "backend/communication/communicator.hpp"
#include "backend/communication/shared_store.hpp"

namespace penstock {

/// Opens a store over TCP; `address.port` becomes the port that it listens on.
std::unique_ptr<SharedStore> open_tcp_store(StoreAddress& address);

/// All ranks call it with stores of the same address and prefix. Transfers have no timeout: a peer
/// is gone when its socket closes. `address` is this machine's, as the other ranks know it
/// (backend/communication/interface.hpp). Pin the process to its cores before: Gloo's threads
/// inherit them, and take the normal scheduling policy.
std::unique_ptr<Communicator> make_gloo(SharedStore& store, int rank, int size,
                                        const std::string& address = "127.0.0.1");

}  // namespace penstock
