// A communicator whose transfers move nothing, for dry steps.
#pragma once

#include "backend/communication/communicator.hpp"

namespace penstock {

/// Stands in for `real`, which outlives it: receives give zeros, sends go nowhere. Sums are not
/// asked of it.
std::unique_ptr<Communicator> make_dry_communicator(const Communicator& real);

}  // namespace penstock
