// The least seconds that a rank recomputes, as a convex function of how many units each of its
// stages has.
//
// Units are dealt out to stages in whole numbers, and for each way the least recompute is known. A
// mixture of ways takes at least what the mixture of ways with the same mean does for which that is
// least: the lower convex hull of all ways, found by a linear programme with a weight for each.
#pragma once

#include <memory>
#include <vector>

class ClpSimplex;

namespace penstock {

class DealtHull {
 public:
  struct Way {
    std::vector<int> units;  // by stage of the rank
    double seconds = 0;
  };
  /// There is at least one way. Planes rise or fall by `steepest` seconds per unit at most.
  DealtHull(std::vector<Way> ways, double steepest);
  DealtHull(DealtHull&&) noexcept;
  ~DealtHull();

  /// A linear function of the units of stages that no way is below.
  struct Plane {
    std::vector<double> slopes;  // by stage
    double at_none = 0;          // its value where no stage has units
  };
  /// The plane that is highest for a mean of units.
  Plane below(const std::vector<double>& units);

 private:
  std::vector<Way> ways_;
  std::unique_ptr<ClpSimplex> lp_;
};

}  // namespace penstock
