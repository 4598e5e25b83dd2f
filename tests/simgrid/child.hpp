// Runs a function in a process of its own: for an engine that lives once per process, and for
// measurements that must not see each other's memory.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

namespace penstock::testing {

namespace child_detail {

/// Never returns: the child must not run its parent's exit handlers.
[[noreturn]] inline void run_child(const std::function<std::vector<double>()>& function, int out) {
  try {
    const std::vector<double> numbers = function();
    const auto bytes = static_cast<ssize_t>(numbers.size() * sizeof(double));
    _exit(write(out, numbers.data(), static_cast<size_t>(bytes)) == bytes ? 0 : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  _exit(1);
}

inline std::vector<double> read_numbers(int in) {
  std::vector<double> numbers;
  for (double number = 0; read(in, &number, sizeof number) == sizeof number;) {
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace child_detail

/// The few numbers (less than a pipe holds, 4096 bytes) that `function` returns. Throws
/// std::runtime_error if the child does not end well. The caller runs no other threads.
inline std::vector<double> in_child(const std::function<std::vector<double>()>& function) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("in_child: no pipe");
  std::fflush(nullptr);  // what is not written yet would be written by the child as well
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("in_child: no fork");
  if (child == 0) child_detail::run_child(function, ends[1]);
  close(ends[1]);
  std::vector<double> numbers = child_detail::read_numbers(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("in_child: the child failed; its message is above");
  }
  return numbers;
}

}  // namespace penstock::testing
