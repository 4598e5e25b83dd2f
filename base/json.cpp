// Typed access to JSON with messages for people.
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace penstock {

namespace {

constexpr size_t longest_shown = 60;
constexpr const char* kWriteAgain =
    "The file was changed or damaged: write it again with the command that made it.";

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return shortened(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                   longest_shown);
}

/// A key as a part of a JSON pointer (RFC 6901).
std::string escaped(const std::string& key) {
  std::string result;
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string JsonValue::place() const {
  return fmt::format("{}: {}", file_, pointer_.empty() ? "/" : pointer_);
}

void JsonValue::refuse(std::string_view problem, std::string_view cure) const {
  throw InputError(place(), problem, cure);
}

void JsonValue::refuse_type(std::string_view wanted) const {
  refuse(fmt::format("{} is not {}", shown(*value_), wanted), kWriteAgain);
}

bool JsonValue::has(const std::string& key) const {
  return value_->is_object() && value_->contains(key);
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!value_->is_object()) refuse_type("an object");
  const auto found = value_->find(key);
  const std::string pointer = pointer_ + "/" + escaped(key);
  if (found == value_->end()) {
    throw InputError(fmt::format("{}: {}", file_, pointer), "missing", kWriteAgain);
  }
  return {*found, file_, pointer};
}

std::vector<JsonValue> JsonValue::list(const std::string& key) const { return at(key).list(); }

double JsonValue::number() const {
  if (!value_->is_number()) refuse_type("a number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) refuse_type("a finite number");
  return number;
}

int64_t JsonValue::integer() const {
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() ||
                     value_->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
  if (!fits) refuse_type("an integer of 64 bits");
  return value_->get<int64_t>();
}

int JsonValue::integer(const std::string& key, int min, int max) const {
  const JsonValue value = at(key);
  const int64_t integer = value.integer();
  if (integer < min || integer > max) {
    value.refuse(fmt::format("{} is out of range", integer),
                 fmt::format("It must be {}..{}.", min, max));
  }
  return static_cast<int>(integer);
}

std::string JsonValue::text() const {
  if (!value_->is_string()) refuse_type("a text");
  return value_->get<std::string>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) refuse_type("true or false");
  return value_->get<bool>();
}

std::vector<JsonValue> JsonValue::list() const {
  if (!value_->is_array()) refuse_type("a list");
  std::vector<JsonValue> entries;
  entries.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    entries.emplace_back((*value_)[i], file_, fmt::format("{}/{}", pointer_, i));
  }
  return entries;
}

std::vector<std::string> JsonValue::keys() const {
  if (!value_->is_object()) refuse_type("an object");
  std::vector<std::string> keys;
  for (const auto& [key, value] : value_->items()) keys.push_back(key);
  return keys;
}

namespace {

/// `byte` counts from 1; the parser was not content with it.
[[noreturn]] void refuse_json(std::string_view text, size_t byte, std::string_view file) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw InputError(file, "not JSON: the file is empty", kWriteAgain);
  }
  const size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  const std::string_view rest = text.substr(at, text.substr(at, longest_shown).find('\n'));
  throw InputError(fmt::format("{}:{}:{}", file, line, column),
                   at == text.size() ? "not JSON: it ends too early"
                                     : fmt::format("not JSON from `{}` on", first_bytes(rest, 20)),
                   kWriteAgain);
}

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

nlohmann::json parse_json(std::string_view text, std::string_view file, std::string_view key) {
  const auto kept = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    return depth != 1 || event != nlohmann::json::parse_event_t::key || parsed == key;
  };
  try {
    return key.empty() ? nlohmann::json::parse(text) : nlohmann::json::parse(text, kept);
  } catch (const nlohmann::json::parse_error& error) {
    refuse_json(text, error.byte, file);
  } catch (const nlohmann::json::exception&) {  // a number beyond every type
    throw InputError(file, "not JSON: a number out of range", kWriteAgain);
  }
}

void require_version(const JsonValue& value, int64_t version) {
  const int64_t found = value.integer("version");
  if (found == version) return;
  value.at("version").refuse(
      fmt::format("version {} is unknown", found),
      fmt::format("This Penstock reads version {}: write the file again with it.", version));
}

}  // namespace penstock
