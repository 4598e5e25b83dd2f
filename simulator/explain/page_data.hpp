// The JSON in an HTML page, which its scripts read. page/model.js says what they make of it.
#pragma once

#include <nlohmann/json.hpp>

#include "simulator/explain/html.hpp"

namespace penstock {

/// Both have `title`, `facts`, `kinds`, `stages`, `span_s` and `rows`: a row of the timeline each,
/// with its events and memory. What only one of them has is in `simulation` or `comparison`.
nlohmann::ordered_json page_data(const Page& page);
nlohmann::ordered_json page_data(const ComparisonPage& page);

}  // namespace penstock
