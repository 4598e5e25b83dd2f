// The spaces of a search, listed block by block as it comes to them, and those of them to look into
// next: by their bounds, or by guesses of what they may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/open/split_order.hpp"
#include "planner/splits/least.hpp"
#include "planner/splits/search.hpp"

namespace penstock {

/// Spaces that a round of a search looks at. Fixed, whatever the number of threads.
constexpr size_t round_width = 8;

class SpaceList {
 public:
  /// A space at best, as far as it is open, and its number; for a block its best space, and the
  /// number of its first.
  using Top = std::pair<SplitRank, size_t>;
  /// Whether a space is left out, now and later. Blocks die with all of their spaces.
  using Dead = std::function<bool(const Top&)>;

  /// Both outlive it.
  SpaceList(const std::vector<SpaceBlock>& blocks, const SplitSearch& search);

  /// Its block was listed.
  const SearchSpace& operator[](size_t number) const;

  /// The `round_width` with the best bounds.
  std::vector<Top> best(const Dead& dead);
  /// The least guess of each of some groups, those never tried first, and then the least guesses of
  /// all.
  std::vector<size_t> promising(const Dead& dead);
  /// Calls it with every space that is not dead, or, of a block that is not listed, with numbers no
  /// greater than those of its spaces.
  void each(const Dead& dead, const std::function<void(const SearchSpace&)>& call) const;

  /// Guesses of a group are corrected by the mean of what its spaces turned out to take, over what
  /// was guessed.
  void took(size_t group, double ratio) {
    auto& [sum, count] = taken_[group];
    sum += ratio;
    ++count;
  }
  /// With what that took, the more the later the group has its next turn.
  void did_not_fit(size_t group, int64_t effort) {
    took(group, misfit_ratio);
    in_vain_[group] += effort;
  }

 private:
  /// A block comes before its spaces.
  enum class Kind : uint8_t { block, space };
  using Entry = std::tuple<SplitRank, size_t, Kind>;
  using Guess = std::pair<double, Entry>;

  /// Groups in a round.
  static constexpr size_t round_of_groups = 4;
  /// A guess is taken to have been off by it where the split does not even fit.
  static constexpr double misfit_ratio = 2;
  /// A group in which one part in so many of the effort was spent in vain counts for twice as slow.
  static constexpr double vain_share = 16;

  size_t block_of(size_t number) const;
  bool gone(const Entry& entry, const Dead& dead) const;
  void list(size_t first);
  const std::vector<Guess>& first_of(Least<Guess>& guesses, const Dead& dead);
  std::optional<size_t> unlisted(const Dead& dead);
  std::vector<Guess> of_groups(const std::map<size_t, Guess>& best) const;
  double correction(size_t group) const;

  const std::vector<SpaceBlock>& blocks_;
  const SplitSearch& search_;
  std::vector<size_t> begins_;                          // of the blocks
  std::map<size_t, std::vector<SearchSpace>> listed_;   // by the number of the first
  Least<Entry> tops_;                                   // of spaces, and of blocks not listed
  std::map<size_t, Least<Guess>> guesses_;              // of the same, by group
  std::map<size_t, std::pair<double, int64_t>> taken_;  // ratios and their number
  std::map<size_t, int64_t> in_vain_;                   // effort of splits that did not fit
};

}  // namespace penstock
