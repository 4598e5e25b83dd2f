// Strict reading of the JSON that Penstock writes. Every message names the file and the JSON
// pointer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A value inside a document, which must outlive it. Every member function throws InputError where
/// what it asks for is missing or of another type.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, std::string_view file, std::string pointer = "")
      : value_(&value), file_(file), pointer_(std::move(pointer)) {}

  bool has(const std::string& key) const;
  JsonValue at(const std::string& key) const;
  std::vector<JsonValue> list(const std::string& key) const;

  double number() const;  // finite
  int64_t integer() const;
  std::string text() const;
  bool boolean() const;
  std::vector<JsonValue> list() const;
  std::vector<std::string> keys() const;
  const nlohmann::json& json() const { return *value_; }

  double number(const std::string& key) const { return at(key).number(); }
  int64_t integer(const std::string& key) const { return at(key).integer(); }
  int integer(const std::string& key, int min, int max) const;
  std::string text(const std::string& key) const { return at(key).text(); }

  /// `file: /links/0/latency_s`
  std::string place() const;
  [[noreturn]] void refuse(std::string_view problem, std::string_view cure) const;

 private:
  [[noreturn]] void refuse_type(std::string_view wanted) const;

  const nlohmann::json* value_;
  std::string_view file_;
  std::string pointer_;
};

/// Throws InputError if the file cannot be read or is not JSON.
nlohmann::json read_json(const std::filesystem::path& path);
/// The same from the file's text; `file` is only named in messages. With a key nothing else of the
/// outermost object is kept.
nlohmann::json parse_json(std::string_view text, std::string_view file, std::string_view key = "");

/// Throws InputError unless `value` is an object whose `version` is `version`.
void require_version(const JsonValue& value, int64_t version);

}  // namespace penstock
