#include "cli/stage_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace penstock::cli {

namespace {

constexpr size_t most_names = 6;

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

/// The outermost of its modules that lies in one stage, else the operator.
const std::string& name_of(const Operator& op, const Extent& extent) {
  const auto whole = [&](const std::string& module) {
    const auto& [first, last] = extent.at(module);
    return first == last;
  };
  const auto module = std::find_if(op.modules.begin(), op.modules.end(), whole);
  return module == op.modules.end() ? op.name : *module;
}

/// `layers.3` as (`layers.`, 3).
struct Numbered {
  std::string_view stem;
  int number;
};

std::optional<Numbered> numbered(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  Numbered result{name.substr(0, digits), 0};
  const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), result.number);
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

}  // namespace

std::vector<std::string> stage_names(const Graph& model, const std::vector<int>& stage_of_operator,
                                     int stages) {
  const Extent extent = extents(model, stage_of_operator);
  std::vector<std::vector<std::string>> modules(stages), loose(stages);
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const std::string& name = name_of(model.operators[id], extent);
    const int stage = stage_of_operator[id];
    std::vector<std::string>& names = name == model.operators[id].name ? loose[stage] : modules[stage];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::vector<std::string> result;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::string> names = draw_together(modules[stage].empty() ? loose[stage] : modules[stage]);
    if (names.size() > most_names) {
      names.erase(names.begin() + most_names - 2, names.end() - 1);
      names.insert(names.end() - 1, "...");
    }
    result.push_back(fmt::format("{}", fmt::join(names, ", ")));
  }
  return result;
}

}  // namespace penstock::cli
