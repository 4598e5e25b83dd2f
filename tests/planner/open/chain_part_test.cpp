// Parts of chains, bounds of them and the table of those that none beats, against all splits.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "planner/open/part_bound.hpp"
#include "planner/open/part_tree.hpp"
#include "planner/paths/box_bound.hpp"
#include "tests/planner/paths/path_cases.hpp"

namespace penstock::test {
namespace {

/// The parts of one program.
struct Parts {
  explicit Parts(const PathCase& of) : paths(*of.paths), staged(paths) {
    for (int cut = 0; cut <= stages(); ++cut) {
      firsts.emplace_back(staged, StageRange{0, cut});
      lasts.emplace_back(staged, StageRange{cut, stages()});
    }
  }

  int stages() const { return paths.times().stages(); }
  int end(const std::vector<int>& begins, int stage) const {
    return stage + 1 < stages() ? begins[static_cast<size_t>(stage) + 1] : paths.times().units();
  }
  ChainPart grown(const PartBorder& border, const ChainPart& part, const PartBorder& all,
                  const std::vector<int>& begins, int stage) const {
    const SplitTimes& times = paths.times();
    const PartMeeting grow(staged, {&border}, {stage, stage + 1}, all);
    const int begin = begins[static_cast<size_t>(stage)], end = this->end(begins, stage);
    ChainPart grown = grow.joined({&part}, grow.seconds(times, begin, end));
    const int rank = times.rank_of_stage()[static_cast<size_t>(stage)];
    grown.updates[static_cast<size_t>(rank)] +=
        times.of_stage(times.at(SplitTime::optimizer, stage), begin, end);
    return grown;
  }
  /// The stages before that cut.
  ChainPart first(const std::vector<int>& begins, int cut) const {
    ChainPart part = firsts[0].none();
    for (int stage = 0; stage < cut; ++stage) {
      const auto s = static_cast<size_t>(stage);
      part = grown(firsts[s], part, firsts[s + 1], begins, stage);
    }
    return part;
  }
  ChainPart last(const std::vector<int>& begins, int cut) const {
    ChainPart part = lasts.back().none();
    for (int stage = stages() - 1; stage >= cut; --stage) {
      const auto s = static_cast<size_t>(stage);
      part = grown(lasts[s + 1], part, lasts[s], begins, stage);
    }
    return part;
  }
  double joined_s(const std::vector<int>& begins, int cut) const {
    const auto c = static_cast<size_t>(cut);
    const PartMeeting meet(staged, {&firsts[c], &lasts[c]}, {cut, cut}, lasts[0]);
    const int unit = begins[c];
    const ChainPart before = first(begins, cut), behind = last(begins, cut);
    const ChainPart all = meet.joined({&before, &behind}, meet.seconds(paths.times(), unit, unit));
    return all.inside_s + *std::ranges::max_element(all.updates);
  }

  const ProgramPaths& paths;
  const StagedPaths staged;
  std::vector<PartBorder> firsts, lasts;
};

/// Cases whose actions are of one stage each, of more than one stage.
void for_each_staged_case(uint64_t from, uint64_t to,
                          const std::function<void(const PathCase&, std::mt19937_64&)>& check) {
  for_each_path_case(from, to, linked_chain, [&](const PathCase& one, std::mt19937_64& random) {
    if (one.paths->times().stages() > 1 && StagedPaths::apply_to(*one.paths)) check(one, random);
  });
}

TEST(ChainPart, PartsThatMeetTakeTheLongestPath) {
  int64_t joined = 0, equal = 0;
  for_each_staged_case(800, 840, [&](const PathCase& one, std::mt19937_64& random) {
    const Parts parts(one);
    for (const std::vector<int>& begins : one.splits()) {
      const int cut = 1 + static_cast<int>(random() % static_cast<uint64_t>(parts.stages() - 1));
      const double split_s = one.paths->split_s(begins), joined_s = parts.joined_s(begins, cut);
      EXPECT_LE(joined_s, split_s * (1 + rounding));
      ++joined;
      equal += joined_s >= split_s * (1 - rounding);
      EXPECT_TRUE(posts_when_reached(one.chain.link) || joined_s >= split_s * (1 - rounding));
    }
  });
  EXPECT_GT(joined, 2000);
  EXPECT_GT(equal, joined * 9 / 10);
}

TEST(ChainPart, NoSplitIsFasterForHavingAPartThatIsNowhereShorter) {
  int64_t beaten = 0, compared = 0;
  for_each_staged_case(850, 880, [&](const PathCase& one, std::mt19937_64& random) {
    const Parts parts(one);
    const int cut = 1 + static_cast<int>(random() % static_cast<uint64_t>(parts.stages() - 1));
    const auto c = static_cast<size_t>(cut);
    const double more_s = random() % 2 == 0 ? 0.0 : 1e-3;
    std::map<int, std::map<std::vector<int>, std::map<std::vector<int>, double>>> steps_s;
    for (const std::vector<int>& begins : one.splits()) {
      const auto at = begins.begin() + cut;
      steps_s[*at][{begins.begin(), at}][{at, begins.end()}] = one.paths->split_s(begins);
    }
    for (const auto& [unit, firsts] : steps_s)
      for (const auto& [a, a_s] : firsts)
        for (const auto& [b, b_s] : firsts) {
          const auto part = [&](const std::vector<int>& first, const std::vector<int>& behind) {
            std::vector<int> begins = first;
            begins.insert(begins.end(), behind.begin(), behind.end());
            return parts.first(begins, cut);
          };
          const std::vector<int>& any = a_s.begin()->first;
          ++compared;
          if (!parts.firsts[c].no_longer(part(a, any), part(b, any), more_s)) continue;
          beaten += a != b;
          for (const auto& [behind, step_s] : a_s)
            EXPECT_LE(step_s, b_s.at(behind) * (1 + rounding) + more_s);
        }
  });
  EXPECT_GT(compared, 2000);
  EXPECT_GT(beaten, 200);
}

TEST(PartBound, NoSplitWithThePartTakesLess) {
  int64_t bounded = 0, sharper = 0;
  for_each_staged_case(900, 930, [&](const PathCase& one, std::mt19937_64&) {
    const Parts parts(one);
    const BoxBound bounds(one.paths);
    DivisionChoice choice(one.paths->ranks(), parts.stages());
    const double never = std::numeric_limits<double>::infinity();
    const SplitBox all = bounds.all();
    const BoxBound::Bound bound = bounds.bound(all, {}, {never, never}, choice);
    if (bound.paths.empty()) return;  // there is one split
    const PartBound part_bound(parts.staged, bound.paths, all, parts.firsts);
    for (const std::vector<int>& begins : one.splits())
      for (int cut = 0; cut < parts.stages(); ++cut) {
        const int unit = begins[static_cast<size_t>(cut)];
        const double least_s = part_bound.least_s(parts.first(begins, cut), cut, unit);
        EXPECT_LE(least_s, one.paths->split_s(begins) * (1 + rounding));
        EXPECT_GT(least_s, 0);
        ++bounded;
        sharper += least_s > bound.seconds * (1 + rounding);
      }
  });
  EXPECT_GT(bounded, 5000);
  EXPECT_GT(sharper, bounded / 5);
}

TEST(PartTree, GivesSplitsInTheOrderOfTheirPaths) {
  int64_t given = 0, splits = 0;
  for_each_staged_case(950, 1000, [&](const PathCase& one, std::mt19937_64& random) {
    const BoxBound bounds(one.paths);
    DivisionChoice choice(one.paths->ranks(), one.paths->times().stages());
    const double never = std::numeric_limits<double>::infinity();
    const auto bound = bounds.bound(bounds.all(), {}, {never, never}, choice);
    if (bound.paths.empty()) return;
    std::vector<double> expected;
    for (const std::vector<int>& begins : one.splits())
      expected.push_back(one.paths->split_s(begins));
    std::ranges::sort(expected);
    const SplitOrder order;
    const double most_s = expected[random() % expected.size()];
    const SplitRank most = order.rank(most_s, 0);
    PartTree tree(one.paths, bounds.all(), {bound.seconds, 0}, bound.paths, order);
    size_t next = 0;
    while (!tree.empty()) {
      const double bound_s = tree.bound_s();
      const auto begins = tree.step(&most);
      if (!begins) continue;
      const double split_s = one.paths->split_s(*begins);
      EXPECT_LE(bound_s, split_s * (1 + rounding));
      // Others of its length, up to what parts may be longer than those that they beat.
      ASSERT_LT(next, expected.size());
      EXPECT_NEAR(split_s, expected[next], 2e-6 * split_s);
      ++next;
    }
    EXPECT_TRUE(next == expected.size() || expected[next] > most_s * (1 - 2e-6));
    given += static_cast<int64_t>(next);
    splits += static_cast<int64_t>(expected.size());
  });
  EXPECT_GT(given, 500);
  EXPECT_GT(splits, given);
}

}  // namespace
}  // namespace penstock::test
