// Exact bytes of tensor memory on the CPU: LibTorch's allocator, wrapped in a counter.
#pragma once

#include <cstdint>

namespace penstock::memory {

/// Wraps the CPU allocator; call once, before the first tensor. Tensors made before are not
/// counted. From then on the process keeps the memory that it frees, for the next microbatch.
void count_cpu();
/// Bytes held now, and their peak since the last `reset_peak`.
int64_t held_bytes();
int64_t peak_bytes();
void reset_peak();

}  // namespace penstock::memory
