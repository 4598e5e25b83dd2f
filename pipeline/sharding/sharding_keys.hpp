// `sharding`, as plans and profiles have it: what the ranks of a tensor group hold of parameters,
// and of what modules return, at which prices of memory the rest is completed, how random
// numbers are drawn, and what is kept of values that are gathered.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/sharding/pins.hpp"

namespace penstock {

class YamlMap;

inline constexpr int max_tensor_parallel = 1024;

/// Throws InputError.
sharding::Pins parse_sharding(YamlMap map);
/// `sharding`, written; null where nothing is pinned and memory has no price.
nlohmann::ordered_json sharding_keys(const sharding::Pins& pins);

}  // namespace penstock
