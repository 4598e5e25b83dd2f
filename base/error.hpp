// Basics that every other folder uses: errors, files, JSON, YAML, units, element types.
//
// This file has the one exception for a user's mistake. A command that meets it prints the message,
// writes nothing and ends with exit status 2. Any other exception is a failure while running
// (status 1).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A mistake in a file, a flag or a combination of them. The message names the place
/// (`plan.yaml:12`), the value, and the cure.
class InputError : public std::runtime_error {
 public:
  InputError(std::string_view place, std::string_view problem, std::string_view cure = "");
};

/// The candidate nearest to `name` by edit distance, or "" if none is near enough to suggest.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "Did you mean X?" or "" where nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace penstock
