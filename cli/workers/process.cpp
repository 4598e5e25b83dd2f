#include "cli/workers/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace penstock::cli {

namespace {

using Pipe = std::array<int, 2>;

Pipe make_pipe() {
  Pipe ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return ends;
}

constexpr const char* kOomScore = "/proc/self/oom_score_adj";
constexpr int kMaxOomScore = 1000;

/// Above this process's: without memory, the system ends a worker rather than its supervisor.
std::string oom_score_of_worker() {
  int own = 0;
  std::ifstream(kOomScore) >> own;
  return std::to_string(std::min(own + kMaxOomScore / 2, kMaxOomScore));
}

void set_oom_score(const std::string& score) {
  const int file = open(kOomScore, O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, score.data(), score.size());
  close(file);
}

/// In the child, between fork and exec: only what POSIX allows there.
[[noreturn]] void become(const char* program, pid_t parent, const Pipe& input, const Pipe& output,
                         const std::vector<int>& inherited, const std::string& oom_score) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it ended before the line above
  set_oom_score(oom_score);
  dup2(input[0], STDIN_FILENO);
  dup2(output[1], STDOUT_FILENO);
  for (const int descriptor : inherited) fcntl(descriptor, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) signal(number, SIG_IGN);
  signal(SIGPIPE, SIG_DFL);
  execl(program, program, static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

ChildProcess start_child(const std::string& program, const std::vector<int>& inherited) {
  // Workers speak in events; LibTorch's own log is for who asks for it.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  const Pipe input = make_pipe();
  const Pipe output = make_pipe();
  const std::string oom_score = oom_score_of_worker();
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process == 0) become(program.c_str(), parent, input, output, inherited, oom_score);
  close(input[0]);
  close(output[1]);
  return {process, input[1], output[0]};
}

std::string program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

std::string describe_wait_status(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* name = sigabbrev_np(number);
  return fmt::format("killed by signal {} (SIG{})", number, name == nullptr ? "?" : name);
}

}  // namespace penstock::cli
