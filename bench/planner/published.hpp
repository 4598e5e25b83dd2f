// The results that the authors' own programs printed for their files, known by their content.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bench/planner/settings.hpp"

namespace penstock::bench {

struct Published {
  Setting setting;
  double value = 0;  // in the unit of the objective, to the digits that were printed
};

/// Nothing for a file of another SHA-256.
std::vector<Published> published(std::string_view sha256);

/// The published result for that file and setting.
std::optional<double> published(std::string_view sha256, const Setting& setting);

}  // namespace penstock::bench
