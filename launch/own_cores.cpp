#include "launch/own_cores.hpp"

#include <sched.h>

namespace penstock {

std::set<int> own_cores() {
  cpu_set_t set;
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.insert(core);
  }
  return cores;
}

}  // namespace penstock
