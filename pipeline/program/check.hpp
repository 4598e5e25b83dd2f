// Proves a lowered program sound before anything starts.
#pragma once

#include <string_view>
#include <vector>

#include "pipeline/program/lowering.hpp"

namespace penstock {

/// Throws InputError (place `place`) unless every stage runs F, and where there is any backward B,
/// or I then W, once per microbatch, in this order and on its own rank. Transfers are not looked
/// at.
void check_compute(const Program& program, std::string_view place);

/// Throws InputError (place `place`) unless
///  - check_compute accepts it;
///  - every flow between ranks has its SEND and RECV for every microbatch, after what produces the
///    value and before what uses it;
///  - on every channel (sending rank, receiving rank, direction) the k-th SEND matches the k-th
///    RECV;
///  - REDUCE_GRAD and OPT come at most once per stage, after its backwards, in this order;
///  - the whole finishes without deadlock when every SEND waits for nothing and every RECV
///    for its SEND.
void check(const Program& lowered, const std::vector<Flow>& flows, std::string_view place);

}  // namespace penstock
