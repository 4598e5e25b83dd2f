// Conversions keep the value that the parts stand for; so do those of its gradient.
#include "graph/sharding/conversions.hpp"

#include <gtest/gtest.h>

#include "tests/graph/sharding/held.hpp"

namespace penstock::sharding {
namespace {

using testing::held_elements;
using testing::Numbers;
using Parts = std::vector<Numbers>;

struct Held {
  Shape shape;
  int parts;

  Numbers part_of(const Numbers& whole, const Layout& split, int part) const {
    Numbers taken;
    for (const int64_t at : held_elements(split, shape, parts, part)) taken.push_back(whole[at]);
    return taken;
  }
  Numbers padded(const Numbers& own, const Layout& split, int part) const {
    Numbers whole(testing::count(shape), 0);
    size_t i = 0;
    for (const int64_t at : held_elements(split, shape, parts, part)) whole[at] = own[i++];
    return whole;
  }
  static Numbers sum(const Parts& terms) {
    Numbers total(terms.front().size(), 0);
    for (const Numbers& term : terms)
      for (size_t i = 0; i < term.size(); ++i) total[i] += term[i];
    return total;
  }
  Parts padded(const Parts& own, const Layout& split) const {
    Parts all;
    for (int part = 0; part < parts; ++part) all.push_back(padded(own[part], split, part));
    return all;
  }
  Parts sliced(const Numbers& whole, const Layout& split) const {
    Parts all;
    for (int part = 0; part < parts; ++part) all.push_back(part_of(whole, split, part));
    return all;
  }

  /// The parts after `step`, which knows the layouts but not the value.
  Parts after(Step step, const Parts& held, const Layout& from, const Layout& to) const {
    switch (step) {
      case Step::keep: return held;
      case Step::all_reduce: return Parts(parts, sum(held));
      case Step::reduce_scatter: return sliced(sum(held), to);
      case Step::pad: return padded(held, from);
      case Step::all_gather: return Parts(parts, sum(padded(held, from)));
      case Step::all_to_all: return sliced(sum(padded(held, from)), to);
      case Step::slice: {
        Parts all;
        for (int part = 0; part < parts; ++part) all.push_back(part_of(held[part], to, part));
        return all;
      }
      case Step::first_only: {
        Parts all(parts, Numbers(held.front().size(), 0));
        all.front() = held.front();
        return all;
      }
    }
    return {};
  }

  Parts hold(const Numbers& whole, const Layout& layout, std::mt19937& random) const {
    if (layout.is_split()) return sliced(whole, layout);
    if (layout.kind() != Layout::Kind::partial) return Parts(parts, whole);
    Parts terms(parts, Numbers(whole.size()));
    for (size_t i = 0; i < whole.size(); ++i) {
      int64_t rest = whole[i];
      for (int part = 1; part < parts; ++part)
        rest -= terms[part][i] = static_cast<int64_t>(random() % 100);
      terms.front()[i] = rest;
    }
    return terms;
  }

  void expect_held(const Parts& held, const Numbers& whole, const Layout& layout) const {
    if (layout.is_split())
      EXPECT_EQ(held, sliced(whole, layout)) << layout.str();
    else if (layout.kind() == Layout::Kind::partial)
      EXPECT_EQ(sum(held), whole) << layout.str();
    else
      EXPECT_EQ(held, Parts(parts, whole)) << layout.str();
  }
};

std::vector<Layout> layouts(const Shape& shape, int parts) {
  std::vector<Layout> all = testing::splits(shape, parts);
  for (const Layout& layout : {Layout::identical(), Layout::replicated(), Layout::partial()})
    all.push_back(layout);
  return all;
}

TEST(Conversions, KeepTheValueAndItsGradient) {
  std::mt19937 random(3);
  int tried = 0;
  for (const int parts : {2, 3, 4})
    for (const int64_t elements : {24, 36, 48}) {
      const Held held{testing::random_shape(elements, random), parts};
      Numbers whole(elements);
      for (int64_t& number : whole) number = static_cast<int64_t>(random() % 1000);
      for (const Layout& from : layouts(held.shape, parts))
        for (const Layout& to : layouts(held.shape, parts)) {
          const Conversion c = conversion(from, to);
          SCOPED_TRACE(from.str() + " to " + to.str());
          held.expect_held(held.after(c.forward, held.hold(whole, from, random), from, to), whole,
                           to);
          const Parts gradient = held.hold(whole, to.gradient(), random);
          held.expect_held(held.after(c.backward, gradient, to.gradient(), from.gradient()), whole,
                           from.gradient());
          ++tried;
        }
    }
  EXPECT_GT(tried, 200);
}

TEST(Conversions, SumTheGradientOfWhatIsReadAsReplicated) {
  const Conversion c = conversion(Layout::identical(), Layout::replicated());
  EXPECT_NE(c.from, c.to);
  EXPECT_EQ(c.forward, Step::keep);
  EXPECT_EQ(c.backward, Step::all_reduce);
}

TEST(Conversions, OfSequenceParallelismMoveHalfAnAllReduceEach) {
  const Conversion gather = conversion(Layout::split(1), Layout::replicated());
  EXPECT_EQ(name(gather.forward), "all_gather");
  EXPECT_EQ(name(gather.backward), "reduce_scatter");
  const Conversion scatter = conversion(Layout::partial(), Layout::split(1));
  EXPECT_EQ(name(scatter.forward), "reduce_scatter");
  EXPECT_EQ(name(scatter.backward), "all_gather");
  EXPECT_EQ(bytes_sent(Step::all_reduce, 800, 4), 1200);
  EXPECT_EQ(bytes_sent(Step::all_gather, 800, 4), 600);
  EXPECT_EQ(bytes_sent(Step::reduce_scatter, 800, 4), 600);
  EXPECT_EQ(bytes_sent(Step::all_to_all, 800, 4), 150);
  EXPECT_EQ(bytes_sent(Step::slice, 800, 4), 0);
}

}  // namespace
}  // namespace penstock::sharding
