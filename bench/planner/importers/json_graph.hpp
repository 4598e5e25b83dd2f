// The common part of the JSON of the two planners by Tarnawski et al.
#pragma once

#include <string>
#include <utility>

#include "base/json.hpp"
#include "bench/planner/importers/node_names.hpp"

namespace penstock {

constexpr int kMaxPeerDevices = 1'000'000;

/// A member that is a number and not below 0. Throws InputError at its JSON pointer.
double nonnegative(const JsonValue& value, const std::string& key);

/// `sourceId` and `destId` of an edge. Throws InputError if they are not ids of nodes.
std::pair<int, int> read_ends(const JsonValue& edge, const NodeNames& names);

}  // namespace penstock
