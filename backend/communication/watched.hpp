// A communicator whose waits are seen from outside of the process: a hang is the fault of the rank
// that waits for nobody (launch/supervision/hangs.hpp).
#pragma once

#include <functional>
#include <memory>

#include "backend/communication/communicator.hpp"
#include "backend/communication/spare_time.hpp"
#include "launch/progress.hpp"

namespace penstock {

/// Passes everything on. While it waits it tells `progress` for whom, and `spare` is lent; both
/// outlive it. `on_wait` is called at the beginning of each wait.
std::unique_ptr<Communicator> make_watched(
    std::unique_ptr<Communicator> communicator, SharedProgress& progress, SpareTime& spare,
    std::function<void()> on_wait = [] {});

}  // namespace penstock
