#include "backend/worker/faults.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"

namespace penstock {

namespace {

constexpr const char* kVariable = "PENSTOCK_FAULTS";
constexpr std::array<std::string_view, 2> kinds{"kill", "throw"};

int position_of(const std::string& word) {
  if (word == "end") return Faults::end;
  if (word == "copy") return Faults::copy;
  const bool number = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return number && word.size() < 8 ? std::stoi(word) : -3;
}

void cause(const std::string& what) {
  if (what == "kill") raise(SIGKILL);
  if (what == "throw") throw std::runtime_error(std::string("a fault of ") + kVariable);
}

}  // namespace

Faults::Faults(int rank) {
  const char* const path = std::getenv(kVariable);
  if (path == nullptr || *path == '\0') return;
  path_ = path;
  std::istringstream lines(read_file(path_));
  int64_t begin = 0, number = 0;
  for (std::string line; std::getline(lines, line);
       begin += static_cast<int64_t>(line.size()) + 1) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    int whose = -1;
    std::string position, rest;
    Fault fault{.line = begin};
    const bool read = static_cast<bool>(std::istringstream(line) >> whose >> fault.step >>
                                        position >> fault.what);
    fault.position = position_of(position);
    if (!read || fault.position < copy || std::ranges::count(kinds, fault.what) == 0) {
      throw InputError(fmt::format("{}:{}", path_.string(), number), "is no fault: " + line,
                       "Write RANK STEP POSITION kill, or throw.");
    }
    if (whose == rank) faults_.push_back(fault);
  }
  any_ = !faults_.empty();
}

/// The kind of the fault of that place, noted in the file; "" where there is none.
std::string Faults::take(int64_t step, int position) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(faults_, [&](const Fault& fault) {
    return fault.step == step + 1 && fault.position == position;
  });
  if (found == faults_.end()) return "";
  const Fault fault = *found;
  faults_.erase(found);
  const int file = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const bool noted = pwrite(file, "#", 1, fault.line) == 1;
  close(file);
  return noted ? fault.what : "";
}

void Faults::at(int64_t step, int position) {
  if (any_) cause(take(step, position));
}

}  // namespace penstock
