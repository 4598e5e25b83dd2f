// Work that shares what it is done on, as fluids: bytes of transfers on links, seconds of compute
// on cores. After its latency it goes on at the max-min fair rate of the moment, which changes
// whenever work that it shares something with begins or ends, also by way of others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "simulator/network/fair_share.hpp"
#include "simulator/network/moments.hpp"

namespace penstock {

/// Bytes, at a rate in bytes per second; or seconds of a core alone, at their share of a second.
struct WorkItem {
  int32_t id = 0;
  double start_s = 0, latency_s = 0, amount = 0;
  double bound = 0;                          // of its rate; 0: infinite
  const std::vector<int>* passes = nullptr;  // indices of capacities
};

class SharedWork {
 public:
  /// Capacities in the units of the rates; they outlive this.
  explicit SharedWork(const std::vector<double>& capacity);

  /// Work that starts at or after the end that `next` gave last.
  void add(const WorkItem& item);

  struct Done {
    int32_t id;
    double end_s;
  };
  /// The work that ends next; nothing where none is under way. Of equal ends the one that began
  /// first, and of those the one that was added first. A begin or an end costs O(k r + log n) where
  /// k of n go on at new rates, of r different ones.
  std::optional<Done> next();

 private:
  using Begins = std::priority_queue<Moment, std::vector<Moment>, std::greater<>>;
  struct Work {
    int32_t id = 0;
    double left = 0, since_s = 0;  // at that time
    FairFlow flow;                 // of rate 0 until it begins
    int64_t number = 0;            // in the order in which work begins
    int64_t visit = 0;             // the last one that met it
  };
  bool may_bind(int shared) const;
  void count(const Work& work, int change);
  void begin_next();
  Done end_next();
  void meet(int32_t number);
  void meet_users(int shared);
  void go_on();

  const std::vector<double>& capacity_;
  FairShare fair_;
  std::vector<Work> works_;
  std::vector<int32_t> free_;                // of these, not in use
  std::vector<std::vector<int32_t>> users_;  // by capacity, those under way
  std::vector<double> wanted_;               // by capacity: the sum of their bounds
  std::vector<int> unbounded_;               // by capacity: those without
  std::vector<int64_t> visited_;             // by capacity
  Begins begins_;
  Moments ends_;
  double now_s_ = 0;
  int64_t added_ = 0, begun_ = 0, visits_ = 0;
  std::vector<int32_t> met_;
  std::vector<FairFlow*> flows_;
  std::vector<double> rates_;  // before
};

}  // namespace penstock
