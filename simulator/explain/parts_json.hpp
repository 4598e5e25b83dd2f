// The parts of idle time, memory peaks and rank times, as JSON: the same members in `simulate
// --json`, `compare --json` and the HTML pages.
#pragma once

#include <nlohmann/json.hpp>

#include "simulator/engine/memory.hpp"
#include "simulator/explain/idle.hpp"
#include "simulator/explain/rank_time.hpp"

namespace penstock {

nlohmann::ordered_json to_json(const IdleParts& parts);
nlohmann::ordered_json to_json(const MemoryParts& parts);
nlohmann::ordered_json to_json(const RankTime& time);

}  // namespace penstock
