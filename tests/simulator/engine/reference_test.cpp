// The engine against an independent reference: the equations of engine.hpp solved by iterating all
// of them until nothing changes, on random programs, with times that are multiples of 1/64 s.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

using testing::Case;
using testing::describe;
using testing::make_case;
using testing::Maker;

/// For each rank and action when it starts and ends; nothing if the program cannot finish.
struct Span {
  double start_s = 0, end_s = 0;
  bool operator==(const Span&) const = default;
};
using Spans = std::vector<std::vector<Span>>;
using Place = std::pair<size_t, size_t>;  // rank, index

class Reference {
 public:
  Reference(const Program& program, const Costs& costs, const Link& link)
      : program_(program), costs_(costs), link_(link) {
    for (size_t r = 0; r < program.ranks.size(); ++r) {
      awaited_.emplace_back();
      for (size_t i = 0; i < program.ranks[r].size(); ++i) {
        enlist(r, i);
        awaited_[r].push_back(find_awaited({r, i}));
      }
    }
  }

  /// Time after time all ranks are run anew with the messages' times of the round before, and all
  /// messages are moved with the ranks' times of this round, from "everything at once" on.
  std::optional<Spans> solve() {
    if (!can_finish()) return std::nullopt;
    Spans spans, before;
    do {
      before = spans;
      spans.clear();
      taken_s_.clear();
      for (size_t r = 0; r < program_.ranks.size(); ++r) spans.push_back(run_rank(r));
      for (auto& [key, channel] : channels_) move(channel, spans);
    } while (spans != before);
    return spans;
  }

 private:
  struct Channel {
    std::vector<Place> sends, receives;
  };

  const Action& at(Place place) const { return program_.ranks[place.first][place.second]; }

  void enlist(size_t r, size_t i) {
    const Action& action = program_.ranks[r][i];
    if (!is_send(action.kind) && !is_receive(action.kind)) return;
    const bool send = is_send(action.kind);
    const bool backward = action.kind == Kind::send_backward || action.kind == Kind::recv_backward;
    const int mine = program_.rank_of_stage[static_cast<size_t>(action.stage)];
    const int other = program_.rank_of_stage[static_cast<size_t>(peer_stage(action))];
    Channel& channel = channels_[{send ? mine : other, send ? other : mine, backward}];
    (send ? channel.sends : channel.receives).emplace_back(r, i);
    channel_of_[{r, i}] = &channel;
  }

  /// Does the compute need the message of this RECV?
  static bool needs(const Action& compute, const Action& receive) {
    if (compute.stage != receive.stage || compute.microbatch != receive.microbatch) return false;
    if (receive.kind == Kind::recv_forward) return compute.kind == Kind::forward;
    return receive.kind == Kind::recv_backward &&
           (compute.kind == Kind::backward || compute.kind == Kind::backward_input);
  }

  /// The RECVs that this action waits for: those before it that it needs, or itself if it is a RECV
  /// that nothing after it needs.
  std::vector<Place> find_awaited(Place place) const {
    const auto& actions = program_.ranks[place.first];
    std::vector<Place> result;
    for (size_t i = 0; i < place.second; ++i) {
      const bool first_need =
          std::none_of(actions.begin() + static_cast<std::ptrdiff_t>(i),
                       actions.begin() + static_cast<std::ptrdiff_t>(place.second),
                       [&](const Action& between) { return needs(between, actions[i]); });
      if (first_need && needs(at(place), actions[i])) result.emplace_back(place.first, i);
    }
    if (is_receive(at(place).kind) &&
        std::none_of(actions.begin() + static_cast<std::ptrdiff_t>(place.second), actions.end(),
                     [&](const Action& later) { return needs(later, at(place)); })) {
      result.push_back(place);
    }
    return result;
  }

  std::vector<Span> run_rank(size_t r) {
    std::vector<Span> spans(program_.ranks[r].size());
    double now_s = 0, issued_s = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      const Action& action = program_.ranks[r][i];
      if (is_receive(action.kind)) reached_s_[{r, i}] = now_s;  // it may wait for itself
      for (const Place& receive : awaited_[r][i]) {
        waited_s_[receive] = now_s;
        spans[receive.second].start_s = now_s;
        now_s = std::max(now_s, end_s_[receive] + link_.propagation_s);
        taken_s_[channel_of_.at(receive)].push_back(now_s);
        spans[receive.second].end_s = now_s;
      }
      if (is_send(action.kind)) reached_s_[{r, i}] = now_s;
      if (is_send(action.kind) && link_.mode == SendMode::rendezvous) {
        now_s = std::max(now_s, end_s_[{r, i}]);
      }
      if (is_compute(action.kind)) {
        issued_s += costs_.host_s(action);
        spans[i] = {now_s, std::max(now_s + costs_.duration_s(action), issued_s)};
        now_s = spans[i].end_s;
      }
    }
    return spans;
  }

  void move(const Channel& channel, Spans& spans) {
    double free_s = 0;
    for (size_t k = 0; k < std::min(channel.sends.size(), channel.receives.size()); ++k) {
      const Place send = channel.sends[k];
      const double start_s = std::max({reached_s_.at(send), posted_s(channel, k), free_s});
      free_s = start_s + link_.transfer_s(costs_.message_bytes(at(send)));
      spans[send.first][send.second] = {start_s, free_s};
      end_s_[send] = end_s_[channel.receives[k]] = free_s;
    }
  }

  double posted_s(const Channel& channel, size_t k) const {
    const auto depth = static_cast<size_t>(link_.receive_depth);
    if (link_.mode == SendMode::eager) return 0;
    if (link_.mode == SendMode::rendezvous || depth == 0) return reached_s_.at(channel.receives[k]);
    if (k < depth) return 0;
    // The (k - depth + 1)-th taking of any message of the channel, or waiting for this or a later
    // one.
    const std::vector<double>& takings_s = taken_s_.at(&channel);
    double result_s = takings_s.at(k - depth);
    for (size_t j = k; j < channel.receives.size(); ++j) {
      result_s = std::min(result_s, waited_s_.at(channel.receives[j]));
    }
    return result_s;
  }

  /// Whether the ranks can be stepped to their ends, one action at a time.
  bool can_finish() const {
    std::vector<size_t> next(program_.ranks.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < next.size(); ++r) {
        while (next[r] < program_.ranks[r].size() && may_pass(next, {r, next[r]})) {
          ++next[r];
          moved = true;
        }
      }
    }
    for (size_t r = 0; r < next.size(); ++r) {
      if (next[r] < program_.ranks[r].size()) return false;
    }
    return true;
  }

  /// Everything awaited has been sent; and in a rendezvous a SEND's receive has been reached.
  bool may_pass(const std::vector<size_t>& next, Place place) const {
    for (const auto& [key, channel] : channels_) {
      for (const Place& receive : awaited_[place.first][place.second]) {
        const auto found = std::ranges::find(channel.receives, receive);
        if (found == channel.receives.end()) continue;
        const auto k = static_cast<size_t>(found - channel.receives.begin());
        if (k >= channel.sends.size() || !reached(next, channel.sends[k])) return false;
      }
      const auto found = std::ranges::find(channel.sends, place);
      if (found == channel.sends.end() || link_.mode != SendMode::rendezvous) continue;
      const auto k = static_cast<size_t>(found - channel.sends.begin());
      if (k >= channel.receives.size() || !reached(next, channel.receives[k])) return false;
    }
    return true;
  }

  /// The rank is at that action or behind it. A compute before it holds it back by what it awaits.
  static bool reached(const std::vector<size_t>& next, Place place) {
    return next[place.first] >= place.second;
  }

  const Program& program_;
  const Costs& costs_;
  const Link& link_;
  std::map<std::tuple<int, int, bool>, Channel> channels_;
  std::vector<std::vector<std::vector<Place>>> awaited_;  // by rank and action
  std::map<Place, double> reached_s_, waited_s_, end_s_;
  std::map<const Channel*, std::vector<double>> taken_s_;  // in the receiver's order
  std::map<Place, const Channel*> channel_of_;
};

void expect_equal(const Case& tested, const Spans& expected) {
  const Simulation result = simulate(tested.program, tested.costs, tested.link);
  for (const TimelineEvent& event : result.timeline) {
    const auto& actions = tested.program.ranks[static_cast<size_t>(event.rank)];
    const auto at = std::ranges::find(actions, event.action) - actions.begin();
    const Span& span = expected[static_cast<size_t>(event.rank)][static_cast<size_t>(at)];
    EXPECT_EQ(event.start_s, span.start_s) << to_string(event.action);
    EXPECT_EQ(event.end_s, span.end_s) << to_string(event.action);
  }
  EXPECT_EQ(result.timeline.size(), static_cast<size_t>(result.actions));
}

TEST(Reference, AgreesOnRandomProgramsInAllSendModes) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const Case tested = make_case(seed);
    SCOPED_TRACE(describe(tested, seed));
    const auto expected = Reference(tested.program, tested.costs, tested.link).solve();
    ASSERT_TRUE(expected.has_value()) << "lowering promises a program that finishes in every mode";
    expect_equal(tested, *expected);
    if (HasFailure()) return;
  }
}

// Two actions of a rank change places: some of these programs finish, some do not, and some are
// refused because the two ends of a channel no longer list the same messages.
TEST(Reference, AgreesOnWhichDisturbedProgramsDeadlock) {
  int finished = 0, deadlocked = 0, refused = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Case tested = make_case(seed);
    Maker maker(seed + 1000);
    auto& rank =
        tested.program.ranks[static_cast<size_t>(maker.upto(tested.program.rank_count() - 1))];
    const int last = static_cast<int>(rank.size()) - 1;
    std::swap(rank[static_cast<size_t>(maker.upto(last))],
              rank[static_cast<size_t>(maker.upto(last))]);
    SCOPED_TRACE(describe(tested, seed));
    const auto expected = Reference(tested.program, tested.costs, tested.link).solve();
    try {
      simulate(tested.program, tested.costs, tested.link);
      EXPECT_TRUE(expected.has_value());
      ++finished;
    } catch (const InputError& error) {
      const bool deadlock = std::string(error.what()).find("deadlock") != std::string::npos;
      EXPECT_FALSE(deadlock && expected.has_value()) << error.what();
      ++(deadlock ? deadlocked : refused);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(finished, 10);
  EXPECT_GT(deadlocked, 10);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace penstock
