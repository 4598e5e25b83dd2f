#include "simulator/network/shared_work.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock {

SharedWork::SharedWork(const std::vector<double>& capacity)
    : capacity_(capacity),
      fair_(capacity),
      users_(capacity.size()),
      wanted_(capacity.size(), 0),
      unbounded_(capacity.size(), 0),
      visited_(capacity.size(), 0) {}

void SharedWork::add(const WorkItem& item) {
  int32_t number = static_cast<int32_t>(works_.size());
  if (free_.empty()) {
    works_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Work& work = works_[static_cast<size_t>(number)];
  work = {.id = item.id, .left = item.amount, .flow = {item.bound, item.passes}};
  begins_.push({item.start_s + item.latency_s, added_++, number});
}

std::optional<SharedWork::Done> SharedWork::next() {
  while (!begins_.empty()) {
    if (!ends_.empty() && ends_.top().time_s <= begins_.top().time_s) break;
    begin_next();
  }
  if (ends_.empty()) return std::nullopt;
  return end_next();
}

/// Could those who pass it fill it? One that they cannot never slows anybody.
bool SharedWork::may_bind(int shared) const {
  const auto i = static_cast<size_t>(shared);
  return unbounded_[i] > 0 || wanted_[i] > capacity_[i];
}

void SharedWork::count(const Work& work, int change) {
  for (const int shared : *work.flow.passes) {
    const auto i = static_cast<size_t>(shared);
    if (work.flow.bound > 0) {
      wanted_[i] += change * work.flow.bound;
    } else {
      unbounded_[i] += change;
    }
  }
}

void SharedWork::begin_next() {
  const int32_t number = begins_.top().work;
  now_s_ = std::max(now_s_, begins_.top().time_s);
  begins_.pop();
  Work& work = works_[static_cast<size_t>(number)];
  work.since_s = now_s_;
  work.number = begun_++;
  count(work, 1);
  for (const int shared : *work.flow.passes) users_[static_cast<size_t>(shared)].push_back(number);
  ++visits_;
  meet(number);
  go_on();
}

SharedWork::Done SharedWork::end_next() {
  const int32_t number = ends_.top().work;
  now_s_ = ends_.top().time_s;
  ends_.pop();
  Work& work = works_[static_cast<size_t>(number)];
  const Done done{work.id, now_s_};
  ++visits_;
  for (const int shared : *work.flow.passes)
    std::erase(users_[static_cast<size_t>(shared)], number);
  for (const int shared : *work.flow.passes) meet_users(shared);
  count(work, -1);
  free_.push_back(number);
  go_on();
  return done;
}

void SharedWork::meet(int32_t number) {
  Work& work = works_[static_cast<size_t>(number)];
  if (std::exchange(work.visit, visits_) != visits_) met_.push_back(number);
}

void SharedWork::meet_users(int shared) {
  if (!may_bind(shared)) return;
  if (std::exchange(visited_[static_cast<size_t>(shared)], visits_) == visits_) return;
  for (const int32_t user : users_[static_cast<size_t>(shared)]) meet(user);
}

/// Gives new rates to the work that was met, and to all whose rates hang on its.
void SharedWork::go_on() {
  for (size_t i = 0; i < met_.size(); ++i) {
    for (const int shared : *works_[static_cast<size_t>(met_[i])].flow.passes) meet_users(shared);
  }
  flows_.clear();
  rates_.clear();
  for (const int32_t number : met_) {
    flows_.push_back(&works_[static_cast<size_t>(number)].flow);
    rates_.push_back(flows_.back()->rate);
  }
  fair_.fill(flows_);
  for (size_t i = 0; i < met_.size(); ++i) {
    Work& work = works_[static_cast<size_t>(met_[i])];
    if (work.flow.rate == rates_[i]) continue;
    if (work.since_s < now_s_)
      work.left = std::max(0.0, work.left - rates_[i] * (now_s_ - work.since_s));
    work.since_s = now_s_;
    const double rest_s = std::isinf(work.flow.rate) ? 0 : work.left / work.flow.rate;
    ends_.put({now_s_ + rest_s, work.number, met_[i]});
  }
  met_.clear();
}

}  // namespace penstock
