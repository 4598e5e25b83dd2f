// An event handler that builds nothing.
#include "base/yaml_strict.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
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

/// The meaning of yaml-cpp's messages, of those that people meet.
struct YamlMistake {
  std::string_view message, problem, cure;
};

namespace wrong = YAML::ErrorMsg;

constexpr std::string_view indent_alike = "Indent the keys of one mapping alike.";

const YamlMistake yaml_mistakes[] = {
    {wrong::END_OF_MAP_FLOW, "a `{` is never closed", "Close it, or remove it."},
    {wrong::END_OF_SEQ_FLOW, "a `[` is never closed", "Close it, or remove it."},
    {wrong::FLOW_END, "a bracket is closed that was not opened", "Remove it, or open it."},
    {wrong::END_OF_MAP, "this line's indentation fits no line above", indent_alike},
    {wrong::END_OF_SEQ, "this line's indentation fits no line above", indent_alike},
    {wrong::TAB_IN_INDENTATION, "a tab where indentation belongs", "Indent with spaces."},
    {wrong::MAP_VALUE, "a `:` where no value belongs",
     "Check the indentation, and put a text with `: ` in it in quotes."},
    {wrong::INVALID_ESCAPE, "no such escape within double quotes",
     "Use single quotes, where a backslash stands for itself."},
    {wrong::UNKNOWN_ANCHOR, "an alias (*) of nothing", "Put a text that begins with * in quotes."},
    {wrong::UNKNOWN_TOKEN, "a character with which no value begins",
     "Put the text in quotes; indent with spaces."},
};

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
    refuse_yaml(error, text, file);
  }
}

void refuse_yaml(const YAML::Exception& error, const std::string& text, const std::string& file) {
  const auto lines =
      static_cast<int>(std::ranges::count(text, '\n')) + (text.ends_with('\n') ? 0 : 1);
  const std::string place =
      error.mark.line < lines
          ? fmt::format("{}:{}:{}", file, error.mark.line + 1, error.mark.column + 1)
          : fmt::format("{}:{}", file, lines);  // met in what is added to the text
  const auto known = std::ranges::find_if(yaml_mistakes, [&](const YamlMistake& mistake) {
    return error.msg.starts_with(mistake.message);
  });
  const bool is_known = known != std::end(yaml_mistakes);
  throw InputError(
      place, fmt::format("not YAML: {}", is_known ? known->problem : std::string_view(error.msg)),
      is_known ? known->cure : "Check the indentation, brackets and quotes there.");
}

}  // namespace penstock
