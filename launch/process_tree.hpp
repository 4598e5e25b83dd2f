// The processes above this one.
#pragma once

#include <optional>
#include <string_view>

namespace penstock {

/// The number of the nearest process that started this one, itself or through others, and whose
/// name holds `part`; nothing where there is none, or /proc does not say.
std::optional<int> process_above(std::string_view part);

}  // namespace penstock
