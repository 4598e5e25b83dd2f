#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/appended_file.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/metrics/metrics.hpp"

namespace penstock::cli {

namespace {

int64_t step_of(const std::string& line, const std::string& place) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object() && json.contains("step") && json["step"].is_number_integer())
    return json["step"].get<int64_t>();
  throw InputError(place, "is not a step of a run, which a resumed run would go on after",
                   "Give --metrics the file of the run that is resumed, or a new one.");
}

/// The bytes of a file's lines up to step `done`. A last line without an end was cut off with its
/// run.
int64_t kept_bytes(const std::string& path, int64_t done) {
  std::error_code none;
  if (done == 0 || !std::filesystem::is_regular_file(path, none)) return 0;
  const std::string text = read_file(path);
  size_t begin = 0;
  int number = 1;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string place = fmt::format("{}:{}", path, number++);
    if (step_of(text.substr(begin, end - begin), place) > done) break;
  }
  return static_cast<int64_t>(begin);
}

class JsonLines : public MetricsFile {
 public:
  JsonLines(std::string path, int64_t done)
      : path_(std::move(path)), kept_(kept_bytes(path_, done)) {}

  void write(const nlohmann::ordered_json& step) override {
    if (!file_) file_.emplace(path_, kept_);
    file_->append(step.dump() + "\n");
  }

 private:
  std::string path_;
  int64_t kept_;
  std::optional<AppendedFile> file_;
};

}  // namespace

std::unique_ptr<MetricsFile> make_json_lines(const std::string& path, int64_t done) {
  return std::make_unique<JsonLines>(path, done);
}

}  // namespace penstock::cli
