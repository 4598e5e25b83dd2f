// The memory that this process and those that it starts may still take.
#pragma once

#include <cstdint>
#include <filesystem>

namespace penstock {

/// Bytes that may be taken without swapping: what the system estimates to be available, or less
/// where a control group (version 2) limits it, as in a container or a job of Slurm. Throws
/// std::runtime_error where the system does not tell.
int64_t available_memory_bytes();

/// Bytes that a control group and those above it leave; at most `most`. `groups`: where their
/// files are. `group`: its path in there, as /proc/self/cgroup has it.
int64_t left_by_groups(const std::filesystem::path& groups, const std::filesystem::path& group,
                       int64_t most);

}  // namespace penstock
