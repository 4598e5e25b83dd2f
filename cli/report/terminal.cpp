#include "cli/report/terminal.hpp"

#include <sys/ioctl.h>

#include <cstdlib>

namespace penstock::cli {

int terminal_columns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool colours() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace penstock::cli
