#include "cli/serve/script.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"

namespace penstock::cli {

Script::Script() : id_(getppid()) {
  process_ = static_cast<int>(syscall(SYS_pidfd_open, id_, 0));
  if (process_ < 0 || getppid() != id_)
    throw std::system_error(process_ < 0 ? errno : ESRCH, std::generic_category(),
                            "the process of the script");
}

Script::~Script() { close(process_); }

std::string Script::name() const {
  std::ifstream file(fmt::format("/proc/{}/cmdline", id_));
  std::string command;
  for (std::string word; std::getline(file, word, '\0');)
    command += (command.empty() ? "" : " ") + word;
  constexpr size_t kLongest = 200;  // of `python -c`, the whole script
  return fmt::format("process {} ({})", id_, shortened(command, kLongest));
}

void Script::tell(const nlohmann::json& event) const {
  const std::string text =
      event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_all(STDOUT_FILENO, text);  // where it has ended `process` shows that
}

void Script::tell_warning(const std::string& message) const {
  tell({{"event", "warning"}, {"message", message}});
}

void Script::tell_error(bool input, const std::string& message, const WorkerError& place) const {
  tell({{"event", "error"},
        {"kind", input ? "input" : "failure"},
        {"message", message},
        {"rank", place.rank},
        {"step", place.step},
        {"action", place.action}});
}

bool Script::read(const std::function<void(const nlohmann::json&)>& take) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(requests, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  unread_.append(buffer.data(), static_cast<size_t>(got));
  for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    take(nlohmann::json::parse(line));
  }
  return true;
}

}  // namespace penstock::cli
