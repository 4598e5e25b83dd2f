#include "launch/supervision/hangs.hpp"

#include <algorithm>

namespace penstock {

namespace {

bool acts(const std::optional<RankView>& view) {
  return view && view->activity.kind == Activity::Kind::acts;
}

bool waits(const std::optional<RankView>& view) {
  return view && view->activity.kind == Activity::Kind::waits;
}

}  // namespace

Deadlines deadlines_from(double least_s) {
  Deadlines deadlines;
  deadlines.first_s *= least_s / deadlines.least_s;
  deadlines.least_s = least_s;
  return deadlines;
}

std::optional<Hang> HangWatch::look(double now_s,
                                    const std::vector<std::optional<RankView>>& ranks) {
  const double passed_s = std::min(now_s - looked_s_.value_or(now_s), interval_s());
  looked_s_ = now_s;
  bool changed = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    changed |= ranks_[i].seen != ranks[i];
    see(ranks_[i], ranks[i], passed_s);
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    if (acts(rank.seen) && rank.for_s >= limit_s(rank))
      return Hang{static_cast<int>(i), rank.for_s};
  }
  return standstill(passed_s, changed);
}

void HangWatch::restart() {
  for (Rank& rank : ranks_) {
    rank.seen.reset();
    rank.for_s = 0;
  }
  standstill_s_ = 0;
}

void HangWatch::see(Rank& rank, const std::optional<RankView>& now, double passed_s) {
  if (rank.seen == now) {
    rank.for_s += passed_s;
    return;
  }
  if (acts(rank.seen)) {
    double& longest_s = rank.longest_s[rank.seen->place.position];
    longest_s = std::max(longest_s, rank.for_s + passed_s);
  }
  // Actions between two looks took less than an interval.
  if (rank.seen && now && rank.seen->place.step >= 0 && now->place.step > rank.seen->place.step)
    rank.whole_step = true;
  rank.seen = now;
  rank.for_s = 0;
}

double HangWatch::limit_s(double longest_s) const {
  return std::max(deadlines_.least_s, deadlines_.factor * longest_s);
}

/// The limit of the action that the rank is seen at.
double HangWatch::limit_s(const Rank& rank) const {
  if (!rank.whole_step) return deadlines_.first_s;
  const auto longest = rank.longest_s.find(rank.seen->place.position);
  return limit_s(longest == rank.longest_s.end() ? 0 : longest->second);
}

std::optional<Hang> HangWatch::standstill(double passed_s, bool changed) {
  const bool all_wait = std::ranges::all_of(ranks_, [](const Rank& r) { return waits(r.seen); });
  if (changed || !all_wait) {
    longest_standstill_s_ = std::max(longest_standstill_s_, standstill_s_);
    standstill_s_ = 0;
    return std::nullopt;
  }
  standstill_s_ += passed_s;
  const bool whole_step = std::ranges::all_of(ranks_, &Rank::whole_step);
  const double limit = whole_step ? limit_s(longest_standstill_s_) : deadlines_.first_s;
  if (standstill_s_ < limit) return std::nullopt;
  return Hang{-1, standstill_s_};
}

std::optional<LostMessage> lost_message(const Program& program, const std::vector<RankView>& ranks,
                                        int parts) {
  const auto size = static_cast<size_t>(program.rank_count());
  const auto row = [&](size_t rank) -> const auto& {
    return program.ranks[rank / static_cast<size_t>(parts) % size];
  };
  for (size_t to = 0; to < ranks.size(); ++to) {
    const auto [place, activity] = ranks[to];
    if (activity.kind != Activity::Kind::waits || activity.peer < 0 || place.position < 0) continue;
    const Action& receive = row(to).at(static_cast<size_t>(place.position));
    if (!is_receive(receive.kind)) continue;
    const auto from = static_cast<size_t>(activity.peer);
    const auto send = std::ranges::find_if(row(from), [&](const Action& action) {
      const bool forward = receive.kind == Kind::recv_forward;
      return action.kind == (forward ? Kind::send_forward : Kind::send_backward) &&
             action.stage == peer_stage(receive) && peer_stage(action) == receive.stage &&
             action.microbatch == receive.microbatch;
    });
    if (send == row(from).end()) continue;
    const auto sent_at = static_cast<int>(send - row(from).begin());
    const SharedProgress::Place& sender = ranks[from].place;
    const bool sent =
        sender.step > place.step ||
        (sender.step == place.step && (sender.position < 0 || sender.position > sent_at));
    if (sent) return LostMessage{activity.peer, static_cast<int>(to)};
  }
  return std::nullopt;
}

}  // namespace penstock
