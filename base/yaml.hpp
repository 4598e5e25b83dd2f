// Strict reading of the YAML that people write. Refused, each with file, line, value and cure:
// unknown and duplicate keys, anchors and aliases, tags, several documents, wrong types, numbers
// out of range.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace YAML {
class Node;
}

namespace penstock {

/// A mapping being read. Every key asked for is noted; `finish` refuses those never asked for.
class YamlMap {
 public:
  YamlMap(const YAML::Node& node, std::string file, std::string path = "");

  bool has(const std::string& key);
  bool has_map(const std::string& key);  // and what it has is a mapping
  bool has_list(const std::string& key);
  YamlMap map(const std::string& key);
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  int64_t integer(const std::string& key, int64_t min, int64_t max);
  int64_t integer(const std::string& key, int64_t min, int64_t max, int64_t otherwise);
  double number(const std::string& key, double min, double max);
  double number(const std::string& key, double min, double max, double otherwise);
  bool boolean(const std::string& key, bool otherwise);
  std::vector<std::string> texts(const std::string& key);  // a list, or one text
  std::vector<YamlMap> maps(const std::string& key);       // a list of mappings
  std::vector<int64_t> integers(const std::string& key, int64_t min, int64_t max);
  std::vector<double> numbers(const std::string& key, double min, double max);
  std::vector<std::string> keys() const;
  /// Throws InputError for a key that was never asked for.
  void finish() const;

  /// `plan.yaml:12: stages[1].rank`
  std::string place(const std::string& key) const;

 private:
  YAML::Node child(const std::string& key);  // throws if absent
  [[noreturn]] void refuse_missing(const std::string& key) const;
  /// With the line of another key.
  std::string place_at(const std::string& at, const std::string& key) const;
  /// The text of a scalar under `key`; throws for a list, a mapping, nothing, or (`plain`) a quoted
  /// text.
  std::string scalar(const std::string& key, const YAML::Node& node, std::string_view wanted,
                     bool plain) const;
  template <typename Number>
  Number in_range(const std::string& key, const YAML::Node& node, Number min, Number max) const;
  YAML::Node list(const std::string& key);

  std::shared_ptr<const YAML::Node> node_;
  std::string file_, path_;
  std::vector<std::string> asked_for_;
};

/// The root of a file whose `penstock:` key must be `kind`. Throws InputError.
YamlMap read_yaml(const std::filesystem::path& file, const std::string& kind);
/// The same from the file's text; `file` is only named in messages.
YamlMap parse_yaml(const std::string& text, const std::filesystem::path& file,
                   const std::string& kind);

/// The same JSON value as YAML for people: mappings in their order, a key per line; lists of texts
/// or numbers, and the mappings in lists, on one line. Read back by YamlMap as the same values.
std::string yaml_text(const nlohmann::ordered_json& value, int indent = 0);

/// An object of a JSON document, of which `path` is named in messages; it has no lines.
YamlMap yaml_map(const nlohmann::json& value, std::string file, std::string path);

}  // namespace penstock
