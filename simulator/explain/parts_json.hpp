// The parts of idle time and memory peaks, as JSON: the same members in `simulate --json` and
// in the HTML page.
#pragma once

#include <nlohmann/json.hpp>

#include "simulator/engine/memory.hpp"
#include "simulator/explain/idle.hpp"

namespace penstock {

nlohmann::ordered_json to_json(const IdleParts& parts);
nlohmann::ordered_json to_json(const MemoryParts& parts);

}  // namespace penstock
