// NCCL's need of /dev/shm, which containers are often short of.
#pragma once

#include <cstdint>

namespace penstock {

/// Ranks that share a GPU reach each other over sockets, for which each end of a communicator takes
/// memory of /dev/shm. Throws InputError where `ends` of them need more than `free_bytes`.
void check_shared_memory(int ends, int64_t free_bytes);

/// Bytes free in /dev/shm; the largest number where they are not known.
int64_t free_shared_memory();

}  // namespace penstock
