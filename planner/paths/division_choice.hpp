// Which number of a box to divide it by: the one that makes the bounds of both parts rise most. A
// few steps of the solver for each part tell, or what they told in other boxes where the number has
// been tried often enough (reliability branching, Achterberg, Koch and Martin 2005).
#pragma once

#include <optional>
#include <vector>

#include "planner/paths/path_game.hpp"

namespace penstock {

class DivisionChoice {
 public:
  DivisionChoice(int ranks, int stages);

  /// The units of ranks and stages in a mixture, of a box that `game` was solved for.
  struct Means {
    std::vector<double> ranks, stages;
  };
  /// A rank's units, where those of any are not whole, else a stage's; none: all are. Bounds above
  /// `most_s` are as good as any.
  std::optional<Division> choose(const Means& means, PathGame& game, double most_s);
  /// Parts estimated so far.
  int estimated() const { return estimated_; }

 private:
  /// By how much the bounds of a number's first and second parts rose for a whole unit, added up.
  struct Rises {
    double seconds[2] = {0, 0};
    int tried = 0;
  };
  struct Open {
    Division division;
    double parts[2];  // of a unit, by which the first and the second change the number
    Rises* rises;     // of all boxes
    Rises expected;   // of this one
  };
  std::vector<Open> open(const std::vector<double>& units, Division::Of of,
                         std::vector<Rises>& rises) const;
  double worth(const Open& open, const Rises& mean) const;
  void try_out(Open& open, PathGame& game, double solved_s, double most_s);
  Rises mean() const;

  std::vector<Rises> ranks_, stages_;
  int estimated_ = 0;
};

}  // namespace penstock
