// Tensors of a tensor group held element by element, in one process: what layouts mean, written
// down as plainly as possible.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "graph/sharding/layout.hpp"

namespace penstock::sharding::testing {

using Numbers = std::vector<int64_t>;  // row-major

inline int64_t count(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

/// The index along `dimension` of the element at `flat`.
inline int64_t coordinate(int64_t flat, const Shape& shape, int dimension) {
  for (int d = static_cast<int>(shape.size()) - 1; d > dimension; --d) flat /= shape[d];
  return flat % shape[dimension];
}

/// Which elements of the whole tensor a part has, in the part's order.
inline Numbers held_elements(const Layout& split, const Shape& shape, int parts, int part) {
  const auto ranges = held_ranges(split, shape, parts, part);
  Numbers held;
  for (int64_t flat = 0; flat < count(shape); ++flat) {
    const int64_t at = coordinate(flat, shape, split.dimension());
    if (std::any_of(ranges.begin(), ranges.end(),
                    [&](const Range& range) { return range.begin <= at && at < range.end; }))
      held.push_back(flat);
  }
  return held;
}

/// All splits that fit.
inline std::vector<Layout> splits(const Shape& shape, int parts) {
  std::vector<Layout> found;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    for (int64_t blocks = 1; blocks <= shape[d]; ++blocks)
      if (fits(Layout::split(d, blocks), shape, parts)) found.push_back(Layout::split(d, blocks));
  return found;
}

/// A shape with that many elements.
inline Shape random_shape(int64_t elements, std::mt19937& random) {
  Shape shape;
  while (elements > 1) {
    int64_t size = 1 + static_cast<int64_t>(random() % elements);
    while (elements % size != 0) --size;
    shape.push_back(size);
    elements /= size;
  }
  if (shape.empty() || random() % 4 == 0) shape.insert(shape.begin(), 1);
  return shape;
}

}  // namespace penstock::sharding::testing
