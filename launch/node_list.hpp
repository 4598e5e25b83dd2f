// Slurm's short forms: hosts as `node[01-03,7],login`, numbers of tasks as `2(x3),1`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Every host, in order; zeros in front stay: `n[08-10]` is n08, n09, n10. Several brackets of a
/// name multiply, the last one changing fastest, as in Slurm. Throws InputError naming `place`.
std::vector<std::string> expand_hosts(std::string_view list, std::string_view place);

/// Tasks of each node, in order. Throws InputError naming `place`.
std::vector<int> expand_counts(std::string_view list, std::string_view place);

}  // namespace penstock
