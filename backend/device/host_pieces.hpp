// Tensors' bytes in the host's memory, piece by piece.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace penstock {

/// A part of the bytes of all tensors, one after the other, each as if it were contiguous.
struct ByteRange {
  size_t begin = 0, end = 0;
};

/// Calls `read` with those bytes in order, in pieces of at most so many, each of one tensor. A
/// piece is there until `read` returns. Of tensors on a GPU the next one is on its way meanwhile,
/// behind what the current stream has been given, through pinned memory for two.
void read_in_pieces(const std::vector<at::Tensor>& tensors, ByteRange range, size_t piece_bytes,
                    const std::function<void(std::span<const std::byte>)>& read);

}  // namespace penstock
