// JSON values as YAML.
//
// A text is written plain where every YAML reader takes it as a text, otherwise as a JSON string,
// which is a double-quoted YAML text.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/yaml.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

/// Words that some YAML reader takes for a boolean or nothing.
constexpr std::array reserved{"null", "true", "false", "yes", "no", "on", "off", "y", "n"};

/// Some YAML reader takes it for a number or a date.
bool is_numeric(std::string_view text) {
  const bool based = text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b");
  return based || text.find_first_not_of("0123456789+-.eE_") == text.npos;
}

bool is_plain(const std::string& text) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const auto inner = [&](char c) {
    return word(c) || std::string_view("./@-").find(c) != std::string_view::npos;
  };
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool path = text.starts_with("../") || text.starts_with("./") || text.starts_with("/");
  return !text.empty() && (word(text.front()) || path) && std::ranges::all_of(text, inner) &&
         !is_numeric(text) && std::ranges::find(reserved, lower) == reserved.end();
}

std::string scalar(const Json& value) {
  if (value.is_string() && is_plain(value.get<std::string>())) return value.get<std::string>();
  try {
    return value.dump();
  } catch (const nlohmann::json::type_error&) {
    throw InputError("", fmt::format("the text `{}` is not UTF-8", value.get<std::string>()),
                     "Rename the file or folder.");
  }
}

/// On one line: `[1, 2]`, `{rank: 0, begin: ""}`.
std::string flow(const Json& value) {
  if (!value.is_structured()) return scalar(value);
  std::string text;
  for (const auto& [key, entry] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text.append(scalar(key)).append(": ");
    text += flow(entry);
  }
  return value.is_array() ? "[" + text + "]" : "{" + text + "}";
}

bool holds_structures(const Json& value) {
  return std::ranges::any_of(value, [](const Json& entry) { return entry.is_structured(); });
}

/// Fits on a line: a scalar, a list of scalars, or a mapping of those.
bool is_short(const Json& value) {
  if (value.is_array()) return !holds_structures(value);
  return std::ranges::none_of(value, [](const Json& entry) {
    return entry.is_object() || (entry.is_array() && holds_structures(entry));
  });
}

}  // namespace

std::string yaml_text(const Json& value, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string text;
  for (const auto& [key, entry] : value.items()) {
    text.append(margin).append(scalar(key)).append(":");
    if (!entry.is_structured() || is_short(entry)) {
      text.append(" ").append(flow(entry)).append("\n");
    } else if (entry.is_object()) {
      text.append("\n").append(yaml_text(entry, indent + 2));
    } else {
      text += "\n";
      for (const Json& item : entry)
        text.append(margin).append("  - ").append(flow(item)).append("\n");
    }
  }
  return text;
}

namespace {

YAML::Node yaml_node(const nlohmann::json& value) {
  if (value.is_object()) {
    YAML::Node node(YAML::NodeType::Map);
    for (const auto& [key, entry] : value.items()) node[key] = yaml_node(entry);
    return node;
  }
  if (value.is_array()) {
    YAML::Node node(YAML::NodeType::Sequence);
    for (const nlohmann::json& entry : value) node.push_back(yaml_node(entry));
    return node;
  }
  if (value.is_string()) return YAML::Node(value.get<std::string>());
  return value.is_null() ? YAML::Node() : YAML::Node(value.dump());
}

}  // namespace

YamlMap yaml_map(const nlohmann::json& value, std::string file, std::string path) {
  return YamlMap(yaml_node(value), std::move(file), std::move(path));
}

}  // namespace penstock
