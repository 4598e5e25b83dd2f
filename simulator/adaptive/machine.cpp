#include "simulator/adaptive/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>

namespace penstock {

double done_s(std::vector<MachineWork> work) {
  std::ranges::sort(work, {}, &MachineWork::head_s);
  double now_s = 0;
  for (const MachineWork& each : work) now_s = std::max(now_s, each.head_s) + each.work_s;
  return now_s;
}

double delivered_s(std::vector<MachineWork> work) {
  const auto shorter_tail = [](const MachineWork& a, const MachineWork& b) {
    return a.tail_s < b.tail_s;
  };
  std::priority_queue<MachineWork, std::vector<MachineWork>, decltype(shorter_tail)> open;
  std::ranges::sort(work, {}, &MachineWork::head_s);
  double now_s = 0, last_s = 0;
  for (size_t next = 0; next < work.size() || !open.empty();) {
    if (open.empty()) now_s = std::max(now_s, work[next].head_s);
    for (; next < work.size() && work[next].head_s <= now_s; ++next) open.push(work[next]);
    MachineWork running = open.top();
    open.pop();
    const double until_s =
        next < work.size() ? work[next].head_s : std::numeric_limits<double>::infinity();
    if (now_s + running.work_s <= until_s) {
      now_s += running.work_s;
      last_s = std::max(last_s, now_s + running.tail_s);
      continue;
    }
    running.work_s -= until_s - now_s;
    now_s = until_s;
    open.push(running);
  }
  return last_s;
}

}  // namespace penstock
