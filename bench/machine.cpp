#include "bench/machine.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>

namespace penstock::bench {

namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 11> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", std::gmtime(&now));
  return text.data();
}

}  // namespace

Machine this_machine() {
  Machine machine{.processor = processor_name(), .date = today()};
  machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
  return machine;
}

}  // namespace penstock::bench
