// Runs a function on several ranks at once, each a thread with its communicator.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/gloo.hpp"
#include "backend/communication/local/local.hpp"

namespace penstock::test {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

/// Communicators of one process that meet at a store: `connect(store, rank)` for each.
template <typename Connect>
Communicators make_threads(int size, const Connect& connect) {
  StoreAddress address;
  address.serve = true;
  Communicators communicators(size);
  std::vector<std::unique_ptr<SharedStore>> stores(size);
  stores[0] = open_tcp_store(address);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      StoreAddress own{address.host, address.port, false, ""};
      if (rank > 0) stores[rank] = open_tcp_store(own);
      communicators[rank] = connect(*stores[rank], rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return communicators;
}

/// The same sockets as between machines.
inline Communicators make_gloo_threads(int size) {
  return make_threads(
      size, [size](SharedStore& store, int rank) { return make_gloo(store, rank, size); });
}

/// The same memory as between processes of a machine.
inline Communicators make_local_threads(int size) {
  return make_threads(size, [size](SharedStore& store, int rank) {
    return make_local(Seat{store, rank, size}, make_gloo(store, rank, size));
  });
}

/// A communicator is destroyed as soon as its rank ends, normally or by an exception. Throws the
/// first exception that is no PeerError, else the first PeerError.
inline void run_ranks(Communicators communicators, const std::function<void(Communicator&)>& body) {
  std::vector<std::exception_ptr> failures(communicators.size());
  std::vector<std::exception_ptr> lost(communicators.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < communicators.size(); ++rank) {
    threads.emplace_back([&, rank, own = std::move(communicators[rank])]() mutable {
      try {
        body(*own);
      } catch (const PeerError&) {
        lost[rank] = std::current_exception();
      } catch (...) {
        failures[rank] = std::current_exception();
      }
      own.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : {failures, lost}) {
    for (const std::exception_ptr& failure : list) {
      if (failure) std::rethrow_exception(failure);
    }
  }
}

}  // namespace penstock::test
