#include "simulator/network/shared_work.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

void SharedWork::add(const WorkItem& item) {
  begins_.push({item.start_s + item.latency_s, added_++, item});
}

double SharedWork::end_s(const Moving& moving) const {
  return std::isinf(moving.rate) ? now_s_ : now_s_ + moving.left / moving.rate;
}

size_t SharedWork::first_to_end() const {
  size_t first = 0;
  for (size_t i = 1; i < moving_.size(); ++i) {
    if (end_s(moving_[i]) < end_s(moving_[first])) first = i;
  }
  return first;
}

void SharedWork::advance_to(double time_s) {
  for (Moving& moving : moving_) {
    if (std::isinf(moving.rate)) continue;
    moving.left = std::max(0.0, moving.left - moving.rate * (time_s - now_s_));
  }
  now_s_ = time_s;
}

void SharedWork::share_anew() {
  std::vector<FairFlow> flows;
  flows.reserve(moving_.size());
  for (const Moving& moving : moving_) flows.push_back(moving.flow);
  const std::vector<double> rates = fair_rates(flows, capacity_);
  for (size_t i = 0; i < rates.size(); ++i) moving_[i].rate = rates[i];
}

std::optional<SharedWork::Done> SharedWork::next() {
  while (!begins_.empty() || !moving_.empty()) {
    const size_t first = first_to_end();
    const bool begins =
        !begins_.empty() && (moving_.empty() || begins_.top().time_s < end_s(moving_[first]));
    if (!begins) {
      const Done done{moving_[first].id, end_s(moving_[first])};
      advance_to(done.end_s);
      moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(first));
      share_anew();
      return done;
    }
    advance_to(std::max(now_s_, begins_.top().time_s));
    const WorkItem& item = begins_.top().item;
    moving_.push_back({item.id, item.amount, {item.bound, item.passes}, 0});
    begins_.pop();
    share_anew();
  }
  return std::nullopt;
}

}  // namespace penstock
