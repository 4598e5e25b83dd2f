#include "cli/files/file_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/input_file.hpp"
#include "base/text.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

constexpr int64_t max_head = 1 << 20;  // of a text: where its kind is told

/// A kind that a file names itself.
FileKind named_kind(std::string_view word) {
  static const std::map<std::string_view, FileKind> kinds = {{"job", FileKind::job},
                                                             {"plan", FileKind::plan},
                                                             {"cluster", FileKind::cluster},
                                                             {"device", FileKind::device},
                                                             {"profile", FileKind::profile},
                                                             {"layers", FileKind::layers},
                                                             {"checkpoint", FileKind::manifest}};
  const auto found = kinds.find(word);
  return found == kinds.end() ? FileKind::other : found->second;
}

/// Ends the parse as soon as a key of the outermost object tells the kind.
class KindOfJson : public nlohmann::json_sax<nlohmann::json> {
 public:
  FileKind kind = FileKind::other;

  bool key(string_t& name) override {
    key_ = depth_ == 1 ? name : "";
    if (key_ != "traceEvents") return true;
    kind = FileKind::trace;
    return false;
  }
  bool string(string_t& text) override {
    if (key_ != "penstock") return true;
    kind = named_kind(text);
    return false;
  }
  bool start_object(size_t) override {
    ++depth_;
    if (key_ != "penstock") return true;
    kind = FileKind::trace;  // its exact list of events
    return false;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override { return close(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool close() {
    --depth_;
    key_.clear();
    return true;
  }

  int depth_ = 0;
  std::string key_;
};

FileKind kind_of_json(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  KindOfJson found;
  nlohmann::json::sax_parse(stream, &found);
  return found.kind;
}

/// By the line `penstock: …`, an action in the first cell, or `def model`.
FileKind kind_of_text(std::string_view text) {
  constexpr auto at_begin = std::regex_constants::match_continuous;
  static const std::regex own(R"(^penstock\s*:\s*["']?(\w+)["']?\s*(#.*)?$)");
  static const std::regex cells(R"(^[\s,]*"?\d+[A-Z][A-Z_]*\d+)");
  static const std::regex module(R"(^def\s+model\s*\()");
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(trim(text.substr(0, end)).substr(0, 200));
    const bool indented = end > 0 && (text[0] == ' ' || text[0] == '\t');
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    std::smatch match;
    if (first && std::regex_search(line, cells, at_begin)) return FileKind::program;
    first = false;
    if (indented) continue;
    if (std::regex_search(line, match, own, at_begin)) return named_kind(match[1].str());
    if (std::regex_search(line, module, at_begin)) return FileKind::python;
  }
  return FileKind::other;
}

/// torch.save's zip begins with its pickle; torch.export's has none.
FileKind kind_of_zip(std::string_view head) {
  constexpr size_t name_at = 30, size_at = 26;  // of a member's local header
  uint16_t size = 0;
  if (head.size() < name_at) return FileKind::model;
  std::memcpy(&size, head.data() + size_at, sizeof size);
  return head.substr(name_at, size).ends_with("/data.pkl") ? FileKind::torch_save : FileKind::model;
}

FileKind kind_of_file(const fs::path& path) {
  const InputFile file(path);
  if (file.size_bytes() == 0) return FileKind::empty;
  std::string content(static_cast<size_t>(std::min(file.size_bytes(), max_head)), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  std::string_view head = content;
  if (head.starts_with("PK\x03\x04")) return kind_of_zip(head);
  constexpr size_t length = 8;  // of the header's length, before it
  if (head.size() > length && head[length] == '{' &&
      head.substr(4, 4) == std::string_view("\0\0\0", 4))
    return FileKind::safetensors;
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const std::string_view begin =
      head.substr(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (begin.empty()) return FileKind::empty;
  if (begin[0] == '{') return kind_of_json(path);
  std::string word(begin.substr(0, 9));
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "<!doctype" || word.starts_with("<html")) return FileKind::page;
  return kind_of_text(head);
}

}  // namespace

FileKind file_kind(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw InputError(path.string(), fmt::format("cannot be read: {}", error.message()),
                     "Check the path.");
  }
  if (fs::is_directory(status)) {
    return is_checkpoint(path) || !saved_steps(path).empty() ? FileKind::checkpoint
                                                             : FileKind::folder;
  }
  return fs::is_regular_file(status) ? kind_of_file(path) : FileKind::other;
}

}  // namespace penstock::cli
