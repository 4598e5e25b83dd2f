// Which numbers of a box to divide it by: those of which a part is closed at once, then those that
// make the bounds of both parts rise most. A few steps of the solver for each part tell, or what
// they told in other boxes where the number has been tried often enough (reliability branching,
// Achterberg, Koch and Martin 2005).
#pragma once

#include <compare>
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
    std::vector<char> of_known_rank;  // by stage: is it known how many units its rank has?
  };
  /// By how much the bounds of both parts of a box rose for a whole unit of a number.
  struct Tried {
    Division::Of of;
    int number;
    double seconds[2];
  };
  struct Choice {
    /// The best first, each of the first part of the one before it; none: all numbers are whole.
    std::vector<Division> divisions;
    std::vector<Tried> tried;
  };
  /// The units of a rank, or of a stage of a rank whose units are known where the stage is small or
  /// ranks recompute; those of any stage where all ranks' are whole. A part whose bound is above
  /// `most_s` is closed, and numbers that close one come first, for they make the box smaller.
  Choice choose(const Means& means, PathGame& game, double most_s) const;
  /// For the boxes to come.
  void learn(const std::vector<Tried>& tried);

 private:
  /// Added up over the boxes in which the number was tried.
  struct Rises {
    double seconds[2] = {0, 0};
    int tried = 0;
  };
  struct Open {
    Division division;
    double parts[2];  // of a unit, by which the first and the second change the number
    Rises expected;
  };
  std::vector<Open> open(const std::vector<double>& units, Division::Of of) const;
  const std::vector<Rises>& rises(Division::Of of) const {
    return of == Division::Of::ranks ? ranks_ : stages_;
  }
  struct Worth {
    int closed = 0;    // parts that it is expected to close
    double rises = 1;  // of the bounds of both, multiplied: the smaller one counts most
    auto operator<=>(const Worth&) const = default;
  };
  /// `room_s`: a bound that rises by so much closes its part.
  Worth worth(const Open& open, const Rises& mean, double room_s) const;
  Tried try_out(const Open& open, PathGame& game, double solved_s, double most_s) const;
  Rises mean() const;

  std::vector<Rises> ranks_, stages_;
};

}  // namespace penstock
