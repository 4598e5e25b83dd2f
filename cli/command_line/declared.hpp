// A command as it is declared: flags that CLI11 parses, what its paths are for, its function.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/files/given_paths.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

class Declared {
 public:
  explicit Declared(CLI::App& parser) : app(parser) {}

  CLI::App& app;
  std::function<int()> run;  // after parsing; the exit status
  /// Whether the processes that a launcher started run it together; absent: each by itself.
  std::function<bool()> meets;

  /// Flags and positional arguments that are paths.
  CLI::Option* input(const std::string& flag, std::string& value, std::vector<FileKind> kinds,
                     const std::string& help);
  CLI::Option* output(const std::string& flag, std::string& value, const std::string& help,
                      PathUse use = PathUse::output_file);

  /// The paths that were given, after parsing.
  std::vector<GivenPath> given_paths() const;

 private:
  struct Path {
    const CLI::Option* option;
    const std::string& value;
    GivenPath given;
  };
  CLI::Option* path(GivenPath given, const std::string& flag, std::string& value,
                    const std::string& type, const std::string& help);
  std::vector<Path> paths_;
};

}  // namespace penstock::cli
