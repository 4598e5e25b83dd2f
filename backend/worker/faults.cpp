#include "backend/worker/faults.hpp"

#include <ATen/record_function.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace penstock {

namespace {

constexpr const char* kVariable = "PENSTOCK_FAULTS";

void spin_forever() {
  for (volatile bool on = true; on;) {
  }
}

void throw_error() { throw std::runtime_error(std::string("a fault of ") + kVariable); }

using Cause = void (*)();
constexpr std::array<std::pair<std::string_view, Cause>, 4> kinds{{{"kill", [] { raise(SIGKILL); }},
                                                                   {"stop", [] { raise(SIGSTOP); }},
                                                                   {"spin", spin_forever},
                                                                   {"throw", throw_error}}};

Cause find_kind(std::string_view what) {
  const auto* const found =
      std::ranges::find(kinds, what, [](const auto& kind) { return kind.first; });
  return found == kinds.end() ? nullptr : found->second;
}

void cause(const std::string& what) {
  if (!what.empty()) find_kind(what)();
}

/// In the action that runs; taken by whichever thread comes first.
std::atomic<Cause> armed = nullptr;

constexpr std::string_view kHalf = ".5";

int position_of(const std::string& word) {
  if (word == "end") return Faults::end;
  if (word == "copy") return Faults::copy;
  const bool number = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return number && word.size() < 8 ? std::stoi(word) : -3;
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
    std::string position;
    Fault fault{.line = begin};
    bool read = static_cast<bool>(std::istringstream(line) >> whose >> fault.step >> position >>
                                  fault.what);
    fault.within = position.ends_with(kHalf);
    if (fault.within) position.resize(position.size() - kHalf.size());
    fault.position = position_of(position);
    if (fault.within) read = read && fault.position >= 0 && fault.what != "throw";
    if (!read || fault.position < copy || find_kind(fault.what) == nullptr) {
      throw InputError(fmt::format("{}:{}", path_.string(), number), "is no fault: " + line,
                       "Write RANK STEP POSITION KIND: kill, stop, spin or throw; "
                       "but throw not at a position in an action.");
    }
    if (whose == rank) faults_.push_back(fault);
  }
  any_ = !faults_.empty();
}

/// The kind of the fault of that place, noted in the file; "" where there is none.
std::string Faults::take(int64_t step, int position, bool within) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(faults_, [&](const Fault& fault) {
    return fault.step == step + 1 && fault.position == position && fault.within == within;
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
  if (!any_) return;
  if (position != copy) {
    in_wait();  // the action before had no operator and no wait
    disarm();
  }
  cause(take(step, position, /*within=*/false));
  arm(take(step, position, /*within=*/true));
}

void Faults::in_wait() {
  if (const Cause what = armed.exchange(nullptr)) what();
}

void Faults::arm(const std::string& what) {
  if (what.empty()) return;
  armed = find_kind(what);
  const at::RecordFunctionCallback::StartCallback at_operator =
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
    in_wait();
    return nullptr;
  };
  operators_ = at::addGlobalCallback(at::RecordFunctionCallback(at_operator));
}

void Faults::disarm() {
  if (operators_) at::removeCallback(*std::exchange(operators_, std::nullopt));
}

}  // namespace penstock
