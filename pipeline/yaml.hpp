// Strict reading of the YAML that people write. Refused, each with file, line, value and cure:
// unknown and duplicate keys, anchors and aliases, tags, several documents, wrong types, numbers out of range.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A mapping being read. Every key asked for is noted; `finish` refuses those never asked for.
class YamlMap {
 public:
  YamlMap(YAML::Node node, std::string file, std::string path = "");

  bool has(const std::string& key);
  YAML::Node child(const std::string& key);      // throws if absent
  YamlMap map(const std::string& key);
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  int64_t integer(const std::string& key, int64_t least, int64_t most);
  int64_t integer(const std::string& key, int64_t least, int64_t most, int64_t otherwise);
  double number(const std::string& key, double least, double most);
  double number(const std::string& key, double least, double most, double otherwise);
  bool boolean(const std::string& key, bool otherwise);
  std::vector<std::string> texts(const std::string& key);  // a list, or one text
  std::vector<std::string> keys() const;
  void finish() const;

  /// `plan.yaml:12: stages[1].rank`
  std::string place(const std::string& key) const;

 private:
  YAML::Node node_;
  std::string file_, path_;
  std::vector<std::string> known_;
};

/// The root of a file whose `penstock:` key must be `kind`. Throws InputError.
YamlMap read_yaml(const std::filesystem::path& file, const std::string& kind);

}  // namespace penstock
