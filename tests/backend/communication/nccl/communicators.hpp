// Communicators over the fake of NCCL, for tests that take any.
#pragma once

#include "tests/backend/executor/ranks.hpp"

namespace penstock::test {

/// With a lane for either kind of message from each rank to each. A rank that is done waits for the
/// others: one that is gone is an error to them.
Communicators make_fake_nccl(int size);

}  // namespace penstock::test
