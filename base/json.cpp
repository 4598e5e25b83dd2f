// Typed access to JSON with messages for people.
#include "base/json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"

namespace penstock {

namespace {

constexpr size_t longest_shown = 60;

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > longest_shown) text = text.substr(0, longest_shown) + "…";
  return text;
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
  refuse(fmt::format("{} is not {}", shown(*value_), wanted),
         "The file was changed or damaged: write it again with the command that made it.");
}

bool JsonValue::has(const std::string& key) const {
  return value_->is_object() && value_->contains(key);
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!value_->is_object()) refuse_type("an object");
  const auto found = value_->find(key);
  const std::string pointer = pointer_ + "/" + escaped(key);
  if (found == value_->end()) {
    throw InputError(
        fmt::format("{}: {}", file_, pointer), "missing",
        "The file was changed or damaged: write it again with the command that made it.");
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

nlohmann::json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

nlohmann::json parse_json(std::string_view text, std::string_view file) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        file, fmt::format("not JSON: {}", error.what()),
        "The file was changed or damaged: write it again with the command that made it.");
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
