// What the tests of this folder share: error messages, temporary files, drawn programs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/lowering.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/schedule.hpp"

namespace penstock {

/// The message of the InputError that `call` throws; "" if it throws none.
std::string input_error(const std::function<void()>& call);

/// The stages of `plan`.
Slicing sliced(const Plan& plan, const Graph& model);
/// Why `model` cannot be sliced so; "" if it can.
std::string refusal(const Plan& plan, const Graph& model);

/// `count` damaged versions of a text: cut short, or with some characters replaced, doubled or
/// lost. The same for the same arguments.
std::vector<std::string> damaged(const std::string& text, int count);

/// A folder that is deleted with its contents at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Draws a compute-only program of a chain of stages as a grid, a row per rank, two characters and
/// a space per unit of time: F, I and W take one unit, B two, an overlap as much as its parts;
/// transfers are free. Small letters are those of a rank's later stages, `.` is idle.
std::string draw(const Program& program);

/// The largest number of (stage, microbatch) pairs that a rank holds at once: from F to B or, where
/// the backward is split, to W.
int most_held(const std::vector<Action>& actions);

}  // namespace penstock
