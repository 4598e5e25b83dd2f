// A fleet that has lost its leader: the lowest-numbered supervisor that is left leads, and the
// others join it, with what they have.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

using Json = nlohmann::json;
using namespace std::chrono_literals;

namespace {

// Each notices within 10 s that the leader is gone, and may try another that is gone for as long.
constexpr auto kAllHaveCome = 25s;

}  // namespace

/// Do the supervisors go on that are left of those that began this epoch?
bool Workers::may_go_on() const { return penstock::may_go_on(crew_, supervisors_left()); }

/// Joins the next leader, or leads itself.
void Workers::follow_next() {
  kill_all();
  for (;;) {
    left_.erase(fleet_->leader());
    const int next = *left_.begin();
    if (next == process_) return lead();
    try {
      fleet_->join(fleet_->addresses().at(next), next);
      return tell_ranks();
    } catch (const std::runtime_error&) {
      left_.erase(next);  // lost, too
    }
  }
}

/// Begins with what the lost leader told of the others; the rest they tell as they come.
void Workers::lead() {
  const int before = fleet_->leader();
  fleet_->lead();
  order_.reset();
  later_.clear();
  if (saver_.step()) saver_.finish();  // a part for that leader
  part_.clear();
  processes_ = static_cast<int>(crew_.size());
  come_by_ = Clock::now() + kAllHaveCome;
  for (const int process : crew_) {
    if (process == process_) continue;
    Member& member = members_[process];
    member.machine = machines_.at(process);
    member.lost = member.has_come = !left_.contains(process);
  }
  for (const auto& [rank, process] : assignment_) {
    if (process != process_) members_[process].ranks[rank] = {};
    if (!left_.contains(process)) lost_.push_back(rank);
  }
  if (lost_.empty()) lost_.push_back(before);
  note_loss();
}

/// Meets supervisors that came before this one led, and notes those that do not come.
void Workers::meet_early(const Listener& listener) {
  if (!leads()) return;
  for (const auto& [process, message] : std::exchange(early_, {}))
    take_report(process, message, listener);
  if (!come_by_ || Clock::now() < *come_by_) return;
  come_by_.reset();
  for (auto& [process, member] : members_.all()) {
    if (std::exchange(member.has_come, true)) continue;
    take_loss(process, listener);
  }
}

/// Takes a message of one that has lost sight of the leader, which this one is not yet.
void Workers::take_early(int process, const Json& message) {
  if (left_.contains(process)) {
    early_.emplace_back(process, message);
  } else {
    dismiss(process);
  }
}

/// The others go on without it.
void Workers::dismiss(int process) {
  left_.erase(process);
  std::erase_if(early_, [&](const auto& one) { return one.first == process; });
  fleet_->send(process, untold_end("the other penstocks of the run have lost sight of this one"));
}

}  // namespace penstock::cli
