// Work that shares what it is done on, as fluids: bytes of transfers on links, seconds of compute
// on cores. After its latency it goes on at the max-min fair rate of the moment, which changes
// whenever other work begins or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "simulator/network/fair_share.hpp"

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
  explicit SharedWork(const std::vector<double>& capacity) : capacity_(capacity) {}

  /// Work that starts at or after the end that `next` gave last.
  void add(const WorkItem& item);

  struct Done {
    int32_t id;
    double end_s;
  };
  /// The work that ends next; nothing where none is under way. Of equal ends the one that began
  /// first, and of those the one that was added first. O(work under way) for each begin and end.
  std::optional<Done> next();

 private:
  struct Moving {
    int32_t id;
    double left;
    FairFlow flow;
    double rate = 0;
  };
  struct Begin {
    double time_s;
    int64_t number;
    WorkItem item;
    bool operator>(const Begin& other) const {
      return std::tie(time_s, number) > std::tie(other.time_s, other.number);
    }
  };
  size_t first_to_end() const;
  double end_s(const Moving& moving) const;
  void advance_to(double time_s);
  void share_anew();

  const std::vector<double>& capacity_;
  std::priority_queue<Begin, std::vector<Begin>, std::greater<>> begins_;
  std::vector<Moving> moving_;
  double now_s_ = 0;
  int64_t added_ = 0;
};

}  // namespace penstock
