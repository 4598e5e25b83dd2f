// An event handler that builds nothing.
#include "base/yaml_strict.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>
#include <vector>

#include "base/error.hpp"

namespace penstock {

namespace {

constexpr size_t max_depth = 32;  // a plan needs 4

/// yaml-cpp takes the end of the file for a missing closing quote. A comment put after the text
/// lies inside such a text, and nowhere else.
constexpr std::string_view end_of_file = "\n# (the end of the file)\n";

class StrictEvents : public YAML::EventHandler {
 public:
  explicit StrictEvents(const std::string& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      refuse(mark, "a second document begins", "Keep one document in the file.");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { value(mark, ""); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*)", "Write the value itself.");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark, fmt::format("an anchor `&{}`", name), "Remove it; aliases are not read.");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    const bool quoted = tag == "!";
    if (!quoted) require_untagged(mark, tag);
    if (quoted && text.ends_with("# (the end of the file) ")) {
      refuse(mark, "a quote is opened here and never closed", "Close it.");
    }
    if (expects_key()) return key(mark, text);
    value(mark, text);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, false);
  }
  void OnSequenceEnd() override { open_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, true);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Collection {
    bool mapping = false;
    bool key_next = true;
    std::map<std::string, int> line_of_key = {};
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& problem,
                           std::string_view cure) const {
    throw InputError(fmt::format("{}:{}", file_, mark.line + 1), problem, cure);
  }

  void require_untagged(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?") refuse(mark, fmt::format("a tag `{}`", tag), "Remove it.");
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().mapping && open_.back().key_next;
  }

  void key(const YAML::Mark& mark, const std::string& text) {
    Collection& mapping = open_.back();
    mapping.key_next = false;
    const auto [found, added] = mapping.line_of_key.emplace(text, mark.line + 1);
    if (added) return;
    refuse(mark, fmt::format("the key `{}` is given twice, first in line {}", text, found->second),
           "Keep one of them.");
  }

  void value(const YAML::Mark& mark, const std::string&) {
    if (expects_key()) refuse(mark, "a key that is not a text", "Write `key: value`.");
    if (!open_.empty()) open_.back().key_next = true;
  }

  void open(const YAML::Mark& mark, const std::string& tag, bool mapping) {
    require_untagged(mark, tag);
    value(mark, "");
    if (open_.size() == max_depth) {
      refuse(mark, fmt::format("more than {} levels of nesting", max_depth), "Nest less deeply.");
    }
    open_.push_back({mapping});
  }

  const std::string& file_;
  int documents_ = 0;
  std::vector<Collection> open_;
};

}  // namespace

void require_strict_yaml(const std::string& text, const std::string& file) {
  try {
    std::istringstream stream(text + std::string(end_of_file));
    YAML::Parser parser(stream);
    StrictEvents events(file);
    while (parser.HandleNextDocument(events)) continue;
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}", file, error.mark.line + 1),
                     fmt::format("not YAML: {}", error.msg),
                     "Check the indentation, brackets and quotes there.");
  }
}

}  // namespace penstock
