#include "launch/process_tree.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace penstock {

namespace {

struct Process {
  std::string name;
  int parent = 0;
};

/// `NUMBER (NAME) STATE PARENT …`; a name may hold anything, parentheses too.
std::optional<Process> read_process(int number) {
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos) return std::nullopt;
  Process process{.name = text.substr(open + 1, close - open - 1)};
  char state = ' ';
  std::istringstream rest(text.substr(close + 1));
  if (!(rest >> state >> process.parent)) return std::nullopt;
  return process;
}

}  // namespace

std::optional<int> process_above(std::string_view part) {
  for (int number = getppid(); number > 0;) {
    const std::optional<Process> process = read_process(number);
    if (!process) return std::nullopt;
    if (process->name.find(part) != std::string::npos) return number;
    number = process->parent;
  }
  return std::nullopt;
}

}  // namespace penstock
