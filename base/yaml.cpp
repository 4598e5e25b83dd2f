// Typed access to YAML with messages for people.
#include "base/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "base/yaml_strict.hpp"

namespace penstock {

namespace {

std::string kind_of(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a mapping";
  if (node.IsNull()) return "nothing";
  return fmt::format("`{}`", node.Scalar());
}

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

YamlMap::YamlMap(const YAML::Node& node, std::string file, std::string path)
    : node_(std::make_shared<const YAML::Node>(node)),
      file_(std::move(file)),
      path_(std::move(path)) {
  if (node_->IsMap()) return;
  const YAML::Mark mark = node_->Mark();
  const std::string line = mark.is_null() ? "" : fmt::format(":{}", mark.line + 1);
  throw InputError(fmt::format("{}{}{}{}", file_, line, path_.empty() ? "" : ": ", path_),
                   fmt::format("{} where a mapping belongs", kind_of(*node_)),
                   "Write `key: value` lines.");
}

std::string YamlMap::place(const std::string& key) const { return place_at(key, key); }

std::string YamlMap::place_at(const std::string& at, const std::string& key) const {
  YAML::Mark mark = node_->Mark();
  for (const auto& entry : *node_) {
    if (entry.first.Scalar() == at) mark = entry.first.Mark();
  }
  const std::string line = mark.is_null() ? "" : fmt::format(":{}", mark.line + 1);
  return fmt::format("{}{}: {}{}{}", file_, line, path_, path_.empty() ? "" : ".", key);
}

bool YamlMap::has(const std::string& key) {
  if (std::ranges::find(asked_for_, key) == asked_for_.end()) asked_for_.push_back(key);
  return (*node_)[key].IsDefined();
}

YAML::Node YamlMap::child(const std::string& key) {
  if (!has(key)) refuse_missing(key);
  return (*node_)[key];
}

bool YamlMap::has_map(const std::string& key) { return has(key) && child(key).IsMap(); }

bool YamlMap::has_list(const std::string& key) { return has(key) && child(key).IsSequence(); }

void YamlMap::refuse_missing(const std::string& key) const {
  std::vector<std::string> unread;
  for (const std::string& other : keys()) {
    if (std::ranges::find(asked_for_, other) == asked_for_.end()) unread.push_back(other);
  }
  const std::string similar = nearest(key, unread);
  throw InputError(place_at(similar, key), "missing",
                   similar.empty() ? fmt::format("Add `{}: …`.", key)
                                   : fmt::format("Is `{}` a misspelling of it?", similar));
}

YamlMap YamlMap::map(const std::string& key) {
  return YamlMap(child(key), file_, path_.empty() ? key : path_ + "." + key);
}

YAML::Node YamlMap::list(const std::string& key) {
  const YAML::Node node = child(key);
  if (node.IsSequence()) return node;
  throw InputError(place(key), fmt::format("{} where a list belongs", kind_of(node)),
                   "Write `[…, …]`, or one `- …` per entry.");
}

std::vector<YamlMap> YamlMap::maps(const std::string& key) {
  const YAML::Node entries = list(key);
  const std::string prefix = path_.empty() ? "" : path_ + ".";
  std::vector<YamlMap> result;
  for (size_t i = 0; i < entries.size(); ++i) {
    result.emplace_back(entries[i], file_, fmt::format("{}{}[{}]", prefix, key, i));
  }
  return result;
}

std::string YamlMap::scalar(const std::string& key, const YAML::Node& node, std::string_view wanted,
                            bool plain) const {
  const bool quoted = node.Tag() == "!";
  if (!node.IsScalar() || (plain && quoted)) {
    throw InputError(
        place(key),
        fmt::format("{}{} is not {}", quoted ? "the quoted text " : "", kind_of(node), wanted),
        fmt::format("Write {}.", wanted));
  }
  return node.Scalar();
}

template <typename Number>
Number YamlMap::in_range(const std::string& key, const YAML::Node& node, Number min,
                         Number max) const {
  return parse_number(scalar(key, node, number_in(min, max), true), place(key), min, max);
}

std::string YamlMap::text(const std::string& key) {
  return scalar(key, child(key), "a text", false);
}

std::string YamlMap::text(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

int64_t YamlMap::integer(const std::string& key, int64_t min, int64_t max) {
  return in_range(key, child(key), min, max);
}

int64_t YamlMap::integer(const std::string& key, int64_t min, int64_t max, int64_t otherwise) {
  return has(key) ? integer(key, min, max) : otherwise;
}

double YamlMap::number(const std::string& key, double min, double max) {
  return in_range(key, child(key), min, max);
}

double YamlMap::number(const std::string& key, double min, double max, double otherwise) {
  return has(key) ? number(key, min, max) : otherwise;
}

std::vector<int64_t> YamlMap::integers(const std::string& key, int64_t min, int64_t max) {
  std::vector<int64_t> result;
  for (const YAML::Node& entry : list(key)) result.push_back(in_range(key, entry, min, max));
  return result;
}

std::vector<double> YamlMap::numbers(const std::string& key, double min, double max) {
  std::vector<double> result;
  for (const YAML::Node& entry : list(key)) result.push_back(in_range(key, entry, min, max));
  return result;
}

bool YamlMap::boolean(const std::string& key, bool otherwise) {
  if (!has(key)) return otherwise;
  const std::string text = scalar(key, child(key), "true or false", true);
  if (text == "true") return true;
  if (text == "false") return false;
  throw InputError(place(key), fmt::format("`{}` is not true or false", text),
                   "Write true or false.");
}

std::vector<std::string> YamlMap::texts(const std::string& key) {
  const YAML::Node node = child(key);
  if (!node.IsSequence()) return {scalar(key, node, "a text or a list of texts", false)};
  std::vector<std::string> result;
  for (const YAML::Node& entry : node) result.push_back(scalar(key, entry, "a text", false));
  return result;
}

std::vector<std::string> YamlMap::keys() const {
  std::vector<std::string> result;
  for (const auto& entry : *node_) result.push_back(entry.first.Scalar());
  return result;
}

void YamlMap::finish() const {
  for (const std::string& key : keys()) {
    if (std::ranges::find(asked_for_, key) != asked_for_.end()) continue;
    const std::string suggestion = did_you_mean(key, asked_for_);
    throw InputError(
        place(key), "unknown key",
        suggestion.empty() ? fmt::format("Keys here are: {}.", joined(asked_for_)) : suggestion);
  }
}

namespace {

/// The strict reader lets a few control characters pass that the loader does not.
YAML::Node load(const std::string& text, const std::string& file) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    refuse_yaml(error, text, file);
  }
}

}  // namespace

YamlMap read_yaml(const std::filesystem::path& file, const std::string& kind) {
  return parse_yaml(read_file(file), file, kind);
}

YamlMap parse_yaml(const std::string& text, const std::filesystem::path& file,
                   const std::string& kind) {
  require_strict_yaml(text, file.string());
  YamlMap root(load(text, file.string()), file.string());
  const std::string cure = fmt::format("The file must begin with `penstock: {}`.", kind);
  if (!root.has("penstock")) throw InputError(file.string(), "no key `penstock`", cure);
  const std::string found = root.text("penstock");
  if (found != kind) {
    throw InputError(root.place("penstock"), fmt::format("`{}` where `{}` belongs", found, kind),
                     cure);
  }
  return root;
}

}  // namespace penstock
