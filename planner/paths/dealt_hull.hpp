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
  /// A linear function of the units of stages that no way is below.
  struct Plane {
    std::vector<double> slopes;  // by stage
    double at_none = 0;          // its value where no stage has units
  };
  /// A part of the hull, of mixtures of as many ways as there are stages, and one more.
  struct Facet;
  using Facets = std::vector<std::shared_ptr<const Facet>>;

  /// There is at least one way. Planes rise or fall by `steepest` seconds per unit at most.
  /// `known`: facets of the hull of these ways and others.
  DealtHull(std::vector<Way> ways, double steepest, const Facets& known = {});
  DealtHull(DealtHull&&) noexcept;
  ~DealtHull();

  /// The plane that is highest for a mean of units.
  Plane below(const std::vector<double>& units);
  const Facets& facets() const { return facets_; }

 private:
  void make_programme();
  void keep_facet(const Plane& plane);

  std::vector<Way> ways_;
  double steepest_;
  std::unique_ptr<ClpSimplex> lp_;  // made when first needed
  Facets facets_;                   // that are known
};

}  // namespace penstock
