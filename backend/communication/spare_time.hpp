// Work of another thread for the time in which a rank waits for others: where it has one core, the
// work would otherwise hold up what all wait for.
#pragma once

#include <atomic>
#include <utility>

namespace penstock {

class SpareTime {
 public:
  /// The rank leaves its core to the work while one lives.
  class Lent {
   public:
    explicit Lent(SpareTime& time) : time_(time) {
      ++time_.lent_;
      time_.lent_.notify_all();
    }
    ~Lent() { --time_.lent_; }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

   private:
    SpareTime& time_;
  };

  /// There is work while one lives, in any thread.
  class Wanted {
   public:
    explicit Wanted(SpareTime& time) : time_(&time) { ++time.wanted_; }
    Wanted(Wanted&& other) noexcept : time_(std::exchange(other.time_, nullptr)) {}
    Wanted& operator=(Wanted&&) = delete;
    ~Wanted() {
      if (time_ != nullptr) --time_->wanted_;
    }

    /// Returns as soon as time is lent, for the next small piece of the work.
    void await() const { time_->lent_.wait(0); }

   private:
    SpareTime* time_;
  };

  /// Is there work? A rank that waits then sleeps, so that its core is free.
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }

 private:
  std::atomic<int> lent_ = 0, wanted_ = 0;
};

}  // namespace penstock
