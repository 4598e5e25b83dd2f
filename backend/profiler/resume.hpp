// Resumes a profile from the measurements of an earlier run.
#pragma once

#include <string>
#include <vector>

#include "pipeline/profile/profile.hpp"
#include "pipeline/sharding/group_graphs.hpp"

namespace penstock::profiler {

struct Resumed {
  std::vector<MicrobatchCosts> microbatches;
  std::vector<GroupCosts> groups;
  /// The costs of that graph; of no sizes where none are known.
  GroupCosts costs_of(const GroupGraph& group) const;
};

/// The costs in the file `partial`, if it exists, is complete, and has the same job, model, device,
/// threads, ranks and library as `now`, and is as quick; otherwise none.
Resumed resume(const std::string& partial, const Profile& now);

}  // namespace penstock::profiler
