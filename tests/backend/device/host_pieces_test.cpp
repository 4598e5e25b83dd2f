// Pieces are the bytes of all tensors in their order.
#include "backend/device/host_pieces.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/data/safetensors.hpp"

namespace penstock {
namespace {

TEST(HostPieces, AreTheBytesInOrder) {
  const std::vector<at::Tensor> tensors{at::arange(7, at::kFloat), at::empty({0}, at::kDouble),
                                        at::arange(12, at::kDouble).view({3, 4}).t(),
                                        at::scalar_tensor(9, at::kLong), at::arange(5, at::kShort)};
  std::vector<std::byte> expected;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.contiguous();
    const auto bytes = bytes_of(values);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  for (const size_t most : {1, 3, 16, 1000}) {
    for (size_t begin = 0; begin <= expected.size(); begin += 7) {
      for (size_t end = begin; end <= expected.size(); end += 5) {
        std::vector<std::byte> found;
        read_in_pieces(tensors, {begin, end}, most, [&](std::span<const std::byte> piece) {
          EXPECT_FALSE(piece.empty());
          EXPECT_LE(piece.size(), most);
          found.insert(found.end(), piece.begin(), piece.end());
        });
        const std::span<const std::byte> range = std::span(expected).subspan(begin, end - begin);
        EXPECT_TRUE(std::ranges::equal(found, range)) << most << ": " << begin << " to " << end;
      }
    }
  }
}

TEST(HostPieces, AreNoneOfNothing) {
  read_in_pieces({}, {0, 0}, 4, [](std::span<const std::byte>) { FAIL(); });
  read_in_pieces({at::empty({0})}, {0, 0}, 4, [](std::span<const std::byte>) { FAIL(); });
}

}  // namespace
}  // namespace penstock
