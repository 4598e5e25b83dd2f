#include "backend/device/description.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace penstock::profiler {
namespace {

/// The rest of the line behind `key` and a colon in a file of /proc; "" where there is none.
std::string entry(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t text = line.find_first_not_of(" \t", colon + 1);
    return text == std::string::npos ? "" : line.substr(text);
  }
  return "";
}

int64_t kilobytes(const char* file, const std::string& key) {
  std::istringstream text(entry(file, key));
  int64_t value = 0;
  text >> value;
  return value * 1024;
}

}  // namespace

DeviceInfo cpu_info(int ranks) {
  DeviceInfo device{.kind = "cpu",
                    .name = entry("/proc/cpuinfo", "model name"),
                    .memory_bytes = kilobytes("/proc/meminfo", "MemTotal"),
                    .threads = at::get_num_threads()};
  utsname kernel{};
  uname(&kernel);
  if (device.name.empty()) device.name = kernel.machine;
  device.details = {{"ranks", std::to_string(ranks)},
                    {"cores", std::to_string(std::thread::hardware_concurrency())},
                    {"libtorch", TORCH_VERSION},
                    {"cpu_capability", at::get_cpu_capability()},
                    {"kernel", kernel.release}};
  const std::string clock = entry("/proc/cpuinfo", "cpu MHz");
  if (!clock.empty()) device.details["clock_mhz"] = clock;
  return device;
}

int64_t available_bytes() { return kilobytes("/proc/meminfo", "MemAvailable"); }
int64_t resident_bytes() { return kilobytes("/proc/self/status", "VmRSS"); }

}  // namespace penstock::profiler
