// Tensor parallelism: how the ranks of a tensor group hold a tensor between them, and how operators
// and collectives turn one way into another.
//
// This file has the layouts. A group has `parts` ranks; each holds a part, numbered from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::sharding {

using Shape = std::vector<int64_t>;

/// How a tensor is held, and with it how its gradient is. `identical` and `replicated` hold the
/// same numbers, but are different layouts: only a conversion, whose backward is an all-reduce,
/// leads from the first to the second, so that no gradient is left unsummed.
class Layout {
 public:
  enum class Kind {
    identical,   // I: each rank has the value and computes its whole gradient
    replicated,  // R: each rank has the value and computes a term of its gradient
    split,       // S(d, b): each rank has its part of each of the b blocks of dimension d
    partial,     // P: each rank has a term of the value; its gradient is the whole one
  };
  static Layout identical() { return Layout(Kind::identical, 0, 0); }
  static Layout replicated() { return Layout(Kind::replicated, 0, 0); }
  static Layout partial() { return Layout(Kind::partial, 0, 0); }
  /// `dimension` from 0. Throws std::invalid_argument unless it is, and `blocks` is positive.
  static Layout split(int dimension, int64_t blocks = 1);

  Kind kind() const { return kind_; }
  bool is_split() const { return kind_ == Kind::split; }
  int dimension() const { return dimension_; }  // of a split
  int64_t blocks() const { return blocks_; }    // of a split

  /// How the gradient of a tensor held so is held; that of the gradient's is the tensor's.
  Layout gradient() const;
  /// `I`, `R`, `P`, `S(1)`, `S(1, 3)`, dimension and blocks.
  std::string str() const;
  /// Nothing for another text than str() gives.
  static std::optional<Layout> parse(std::string_view text);

  auto operator<=>(const Layout&) const = default;

 private:
  Layout(Kind kind, int dimension, int64_t blocks)
      : kind_(kind), dimension_(dimension), blocks_(blocks) {}
  Kind kind_;
  int dimension_;
  int64_t blocks_;
};

/// Can a tensor of that shape be held so? A split one needs blocks that divide into equal parts.
bool fits(const Layout& layout, const Shape& shape, int parts);

/// The shape of what a rank holds. Throws std::invalid_argument where the layout does not fit.
Shape local_shape(const Layout& layout, Shape shape, int parts);

struct Range {
  int64_t begin, end;
  bool operator==(const Range&) const = default;
};
/// The ranges that `part` holds of the dimension that is split, ascending, which is how they lie in
/// the part. Throws std::invalid_argument for a layout that is no split, or does not fit.
std::vector<Range> held_ranges(const Layout& split, const Shape& shape, int parts, int part);

/// The one split of `to` in which each rank holds the same elements, in the same order, as it does
/// of `from` split by `split`; nothing where there is none. Both shapes have equally many elements.
///
/// Row-major, a split is O times: a run of each part in turn, with O the sizes before its dimension
/// times its blocks. A view keeps the order of elements, and so O and the runs.
std::optional<Layout> view_split(const Layout& split, const Shape& from, const Shape& to,
                                 int parts);

}  // namespace penstock::sharding
