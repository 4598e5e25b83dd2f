// The game of paths against the splits of a box, as far as both are known.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/paths/path_game.hpp"
#include "planner/paths/program_paths.hpp"
#include "planner/paths/split_box.hpp"
#include "planner/paths/split_memory.hpp"
#include "planner/paths/split_times.hpp"

namespace penstock {

class KnownGame {
 public:
  /// A path, or prices of memory.
  struct Row {
    std::shared_ptr<const ProgramPaths::Path> path;
    std::shared_ptr<const SplitMemory::Priced> memory;
  };
  /// Rows that matter for a box, what is known of the hulls of ranks' recompute, units at which
  /// stages begin, the lowest and the highest first, and how the solution of its game stands to
  /// them, to start with for boxes inside.
  struct Known {
    std::vector<Row> rows;
    std::vector<DealtHull::Facets> hulls;  // by rank
    std::vector<std::vector<int>> places;  // by stage
    PathGame::Basis basis;                 // places stage by stage
  };
  /// The box is tight and holds more than one split. `paths` and it outlive the game. `ways` as
  /// SharedUnits has them; empty where nothing is known of whole units.
  KnownGame(const ProgramPaths& paths, const SplitBox& box, const SharedUnits::Ways& ways,
            const Known& known);

  PathGame& game() { return *game_; }
  void solve();
  /// Does the mixture of places hold too much? The next solution then has to pay for it.
  bool holds_too_much();
  /// Forgets rows that its solution is far from.
  void drop_far();
  /// The mixture of paths that the game was solved for, and the prices of memory.
  struct Mixed {
    Times path;
    MemoryPrices prices;
  };
  Mixed mixed() const;
  std::vector<ProgramPaths::Share> shares() const;
  /// False: it was known.
  bool add_place(size_t stage, int unit);
  void add_path(ProgramPaths::Path path);
  /// The times of the mixture of places that the game was solved for.
  Times mixture() const;
  /// Boxes inside start with it: paths that are no shorter than others for the mixture of the
  /// solution, or little shorter for another one.
  Known known(const Times& other) const;

 private:
  void begin_places(const Known& known);
  void add_row(Row row);
  double of_begin(const Row& row, size_t stage, int unit) const;
  std::vector<std::vector<SplitTimes::Place>> places() const;
  Times middle() const;

  const SplitTimes& times_;
  const SplitMemory* memory_;
  const SplitBox& box_;
  const SharedUnits* shared_;
  std::vector<std::optional<DealtHull>> hulls_;  // of ranks
  double scale_s_ = 0;
  bool solved_ = false;                             // else no mixture is in the box
  std::vector<Row> unpaid_;                         // prices for the next solution
  Known known_;                                     // without the basis
  std::vector<std::pair<size_t, int>> all_places_;  // stage and unit, as the game has them
  std::unique_ptr<PathGame> game_;
};

}  // namespace penstock
