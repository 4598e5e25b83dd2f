// The splits of one space that are still open, best first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/open/split_order.hpp"

namespace penstock {

class OpenSplits {
 public:
  virtual ~OpenSplits() = default;

  virtual bool empty() const = 0;
  /// No key of an open split is less; not of an empty one.
  virtual SplitRank top() const = 0;
  /// The bound of the best open split; likewise.
  virtual double bound_s() const = 0;
  /// Is every open split certain to lose against one of this space with the rank `top()`?
  virtual bool loses(const std::vector<int>& incumbent) const = 0;
  /// Looks at the best: the begins of a split to simulate, or nothing where it took them apart or
  /// bounded them more sharply. Leaves out what ranks behind `incumbent`, which may be null.
  virtual std::optional<std::vector<int>> step(const SplitRank* incumbent) = 0;
  /// Is the split that the last step gave open still, or part of what is?
  virtual bool still_open() const { return false; }
  /// The effort that it has taken so far, as SplitSearch counts it.
  virtual int64_t effort() const = 0;
  /// Nodes that it keeps.
  virtual int64_t kept() const = 0;
  /// Keeps hardly more nodes from now on, where it can.
  virtual void keep_few() {}
};

}  // namespace penstock
