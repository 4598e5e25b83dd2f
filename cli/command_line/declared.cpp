#include "cli/command_line/declared.hpp"

#include <CLI/CLI.hpp>
#include <utility>

namespace penstock::cli {

CLI::Option* Declared::path(GivenPath given, const std::string& flag, std::string& value,
                            const std::string& type, const std::string& help) {
  given.flag = flag.substr(0, flag.find(','));  // `-o` of `-o,--output`
  CLI::Option* option = app.add_option(flag, value, help);
  option->type_name(flag.starts_with('-') ? type : "");
  paths_.push_back({option, value, std::move(given)});
  return option;
}

CLI::Option* Declared::input(const std::string& flag, std::string& value,
                             std::vector<FileKind> kinds, const std::string& help) {
  const bool folder = !kinds.empty() && kinds.front() == FileKind::checkpoint;
  return path({.flag = "", .use = PathUse::input, .path = "", .kinds = std::move(kinds)}, flag,
              value, folder ? "DIR" : "FILE", help);
}

CLI::Option* Declared::output(const std::string& flag, std::string& value, const std::string& help,
                              PathUse use) {
  return path({.flag = "", .use = use, .path = ""}, flag, value,
              use == PathUse::output_folder ? "DIR" : "FILE", help);
}

std::vector<GivenPath> Declared::given_paths() const {
  std::vector<GivenPath> given;
  for (const Path& path : paths_) {
    if (path.option->count() == 0) continue;
    given.push_back(path.given);
    given.back().path = path.value;
  }
  return given;
}

}  // namespace penstock::cli
