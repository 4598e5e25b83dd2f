#include "pipeline/plan/stage_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace penstock {

namespace {

constexpr size_t kMaxNames = 6;   // of a stage
constexpr size_t kMaxParts = 2;   // of a divided module, by their whole names
constexpr size_t kMaxInside = 4;  // of a divided module, in braces

/// First and last stage in which a module has operators.
using Extent = std::map<std::string, std::pair<int, int>>;

Extent extents(const Graph& model, const std::vector<int>& stage_of_operator) {
  Extent extent;
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const int stage = stage_of_operator[id];
    for (const std::string& module : model.operators[id].modules) {
      const auto [at, added] = extent.try_emplace(module, stage, stage);
      at->second = {std::min(at->second.first, stage), std::max(at->second.second, stage)};
    }
  }
  return extent;
}

/// The outermost of its modules that lies in one stage, else the operator; and the module around
/// that, which is divided ("" for the model).
struct Name {
  std::string name, around;
  bool is_module;
};

Name name_of(const Operator& op, const Extent& extent) {
  std::string around;
  for (const std::string& module : op.modules) {
    const auto& [first, last] = extent.at(module);
    if (first == last) return {module, around, true};
    around = module;
  }
  return {op.name, around, false};
}

/// `layers.3` as (`layers.`, 3).
struct Numbered {
  std::string_view stem;
  int number;
};

std::optional<Numbered> numbered(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  Numbered result{name.substr(0, digits), 0};
  const auto [end, error] =
      std::from_chars(name.data() + digits, name.data() + name.size(), result.number);
  if (error != std::errc() || digits == 0) return std::nullopt;
  return result;
}

bool follows(std::string_view name, std::string_view previous) {
  const auto a = numbered(previous), b = numbered(name);
  return a && b && a->stem == b->stem && b->number == a->number + 1;
}

std::vector<std::string> draw_together(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (size_t first = 0; first < names.size();) {
    size_t last = first;
    while (last + 1 < names.size() && follows(names[last + 1], names[last])) ++last;
    result.push_back(last == first ? names[first] : names[first] + "-" + names[last]);
    first = last + 1;
  }
  return result;
}

/// The beginning and the last where there are more than `most`.
std::vector<std::string> shortened(std::vector<std::string> names, size_t most) {
  if (names.size() <= most) return names;
  names.erase(names.begin() + static_cast<std::ptrdiff_t>(most) - 2, names.end() - 1);
  names.insert(names.end() - 1, "...");
  return names;
}

/// The names of one stage in order, those within one divided module next to each other.
class StageNames {
 public:
  void add(const Name& name) {
    if (groups_.empty() || groups_.back().around != name.around)
      groups_.push_back({name.around, {}, {}});
    std::vector<std::string>& names =
        name.is_module ? groups_.back().modules : groups_.back().loose;
    if (std::find(names.begin(), names.end(), name.name) == names.end()) names.push_back(name.name);
  }

  std::string text() const {
    std::vector<std::string> names;
    for (const Group& group : groups_) {
      for (std::string& name : group.names(names.empty()))
        if (std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(std::move(name));
    }
    return fmt::format("{}", fmt::join(shortened(std::move(names), kMaxNames), ", "));
  }

 private:
  struct Group {
    std::string around;
    std::vector<std::string> modules, loose;  // loose: operators of no module that is whole

    /// `alone`: nothing stands before them.
    std::vector<std::string> names(bool alone) const {
      std::vector<std::string> here = draw_together(modules.empty() ? loose : modules);
      const bool many = here.size() > kMaxParts && !around.empty();
      if (!many && modules.empty() && !alone) return {};  // an addition between modules
      if (!many) return here;
      return {modules.empty() ? "part of " + around : in_braces()};
    }

    std::string in_braces() const {
      std::vector<std::string> inside;
      for (const std::string& name : modules)
        inside.push_back(name.starts_with(around + ".") ? name.substr(around.size() + 1) : name);
      inside = shortened(draw_together(inside), kMaxInside);
      return fmt::format("{}.{{{}}}", around, fmt::join(inside, ", "));
    }
  };
  std::vector<Group> groups_;
};

}  // namespace

std::vector<std::string> stage_names(const Graph& model, const std::vector<int>& stage_of_operator,
                                     int stages) {
  const Extent extent = extents(model, stage_of_operator);
  std::vector<StageNames> names(stages);
  for (size_t id = 0; id < model.operators.size(); ++id)
    names[stage_of_operator[id]].add(name_of(model.operators[id], extent));
  std::vector<std::string> result;
  result.reserve(names.size());
  for (const StageNames& stage : names) result.push_back(stage.text());
  return result;
}

std::string recompute_note(const Recompute& recompute) {
  if (recompute.whole) return " (recomputed)";
  if (!recompute.layers.empty()) {
    std::string choices;
    for (const auto& [choice, layers] : recompute.layers)
      choices += fmt::format("{}{} of {}", choices.empty() ? "" : ", ", choice, layers.size());
    return fmt::format(" (recomputes {})", choices);
  }
  const int units = recompute.first_units + static_cast<int>(recompute.units.size());
  return units == 0 ? "" : fmt::format(" ({} unit{} recomputed)", units, units == 1 ? "" : "s");
}

}  // namespace penstock
