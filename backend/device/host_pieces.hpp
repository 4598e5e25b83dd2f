// Tensors' bytes in the host's memory, piece by piece.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace penstock {

/// Calls `read` with the bytes of all tensors in order, each as if it were contiguous, in pieces of
/// at most so many. A piece is there until `read` returns. Of tensors on a GPU the next one is on
/// its way meanwhile, behind what the current stream has been given, through pinned memory for two.
void read_in_pieces(const std::vector<at::Tensor>& tensors, size_t piece_bytes,
                    const std::function<void(std::span<const std::byte>)>& read);

}  // namespace penstock
