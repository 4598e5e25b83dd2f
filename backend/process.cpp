#include "backend/process.hpp"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <vector>

namespace penstock {

namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Equal consecutive shares; where ranks outnumber cores they take turns.
std::vector<int> share(const std::vector<int>& cores, int local_rank, int local_size) {
  const auto each = cores.size() / static_cast<size_t>(local_size);
  if (each == 0) return {cores[static_cast<size_t>(local_rank) % cores.size()]};
  const auto begin = cores.begin() + static_cast<std::ptrdiff_t>(each * local_rank);
  return {begin, begin + static_cast<std::ptrdiff_t>(each)};
}

}  // namespace

int settle_process(int local_rank, int local_size) {
  const std::vector<int> cores = allowed_cores();
  int threads = 1;
  if (!cores.empty()) {
    const std::vector<int> own = share(cores, local_rank, local_size);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : own) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);  // a refusal costs speed, nothing else
    threads = static_cast<int>(own.size());
  }
  const sched_param parameter{};
  sched_setscheduler(0, SCHED_BATCH, &parameter);
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
  return threads;
}

}  // namespace penstock
