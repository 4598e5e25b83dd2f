// Files that record a run step by step, for people and tools that watch it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock::cli {

/// One of these files; it is opened by the first step.
class MetricsFile {
 public:
  virtual ~MetricsFile() = default;
  /// Appends a line, whose `step` says when it was measured; it is in the file, whole, when this
  /// returns. Throws InputError.
  virtual void write(const nlohmann::ordered_json& line) = 0;
};

/// JSON, a line a step. A run that goes on after `done` steps keeps the lines of these; those after
/// them are trained again, and replaced. With `done` 0 the whole file is. Throws InputError where
/// what would be kept is no such file.
std::unique_ptr<MetricsFile> make_json_lines(const std::string& path, int64_t done);

/// TensorBoard's event file, a new one in the folder, a tag for each number. It hides from
/// TensorBoard the steps after the first `done` that other files of the folder have.
std::unique_ptr<MetricsFile> make_tensorboard(const std::string& folder, int64_t done);

class Metrics {
 public:
  Metrics() = default;
  explicit Metrics(std::vector<std::unique_ptr<MetricsFile>> files) : files_(std::move(files)) {}

  /// Returns a message for each file that cannot be written, which is then given up: training goes
  /// on without it.
  std::vector<std::string> write(const nlohmann::ordered_json& line);

 private:
  std::vector<std::unique_ptr<MetricsFile>> files_;
};

}  // namespace penstock::cli
