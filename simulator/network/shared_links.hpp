// Transfers that share links, as fluids: after its latency a transfer moves at the max-min fair
// rate of the moment, which changes whenever another one begins or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "simulator/network/fair_share.hpp"

namespace penstock {

struct SharedTransfer {
  int32_t message = 0;
  double start_s = 0, latency_s = 0, bytes = 0;
  double bound = 0;  // bytes per second; 0: infinite
  const std::vector<int>* passes = nullptr;
};

class SharedLinks {
 public:
  explicit SharedLinks(const std::vector<double>& capacity) : capacity_(capacity) {}

  /// A transfer that starts at or after the end that `next` gave last.
  void add(const SharedTransfer& transfer);

  struct Done {
    int32_t message;
    double end_s;
  };
  /// The transfer that ends next; nothing where none is under way. Of equal ends the one that began
  /// first, and of those the one that was added first. O(transfers that are moving) for each begin
  /// and end.
  std::optional<Done> next();

 private:
  struct Moving {
    int32_t message;
    double left_bytes;
    FairFlow flow;
    double rate = 0;
  };
  struct Begin {
    double time_s;
    int64_t number;
    SharedTransfer transfer;
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
