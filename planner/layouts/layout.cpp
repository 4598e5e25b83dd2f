#include "planner/layouts/layout.hpp"

#include <algorithm>

namespace penstock {

Program PipelineLayout::compute() const {
  return schedule ? schedule->generate(shape()) : empty_program(StagePlacement::loop, shape());
}

MemoryLimit memory_limit(const Profile& profile, const PlanRequest& request,
                         const PipelineLayout& layout, int64_t parts) {
  MemoryLimit limit =
      request.memory_bytes
          ? MemoryLimit{.max_bytes = *request.memory_bytes, .source = "--memory"}
          : device_memory(profile, layout.cluster(), layout.ranks, layout.data_parallel, parts);
  if (limit.any())
    limit.max_bytes += std::min(request.more_memory_bytes, INT64_MAX - limit.max_bytes);
  return limit;
}

}  // namespace penstock
