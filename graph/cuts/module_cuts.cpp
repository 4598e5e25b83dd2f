#include "graph/cuts/module_cuts.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace penstock {

namespace {

/// The calls that operators on both sides of the position run in, from the root inwards.
std::vector<std::string> divided_calls(const Graph& graph, OperatorId position) {
  const auto at = static_cast<size_t>(position);
  const std::vector<std::string>& before = graph.operators[at - 1].modules;
  const std::vector<std::string>& behind = graph.operators[at].modules;
  return {before.begin(),
          std::mismatch(before.begin(), before.end(), behind.begin(), behind.end()).first};
}

/// `iter_block` of the call `iter_block@1`, with slashes, which FNM_PATHNAME keeps apart.
std::string slashed(const std::string& call) {
  std::string path = module_of_call(call);
  std::ranges::replace(path, '.', '/');
  return path;
}

bool matches(const std::string& call, const std::string& pattern) {
  return fnmatch(slashed(pattern).c_str(), slashed(call).c_str(), FNM_PATHNAME) == 0;
}

/// `model.layers.*` for `layers.*`, where that is what matches; else the nearest path.
std::string suggestion(const std::string& pattern, const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      const std::string longer = path.substr(0, dot + 1) + pattern;
      if (matches(path, longer)) return fmt::format("Did you mean {}?", longer);
    }
  }
  return did_you_mean(pattern, {paths.begin(), paths.end()});
}

void check_pattern(const Graph& graph, const std::string& pattern) {
  std::set<std::string> paths;
  for (const Operator& op : graph.operators) {
    for (const std::string& call : op.modules) {
      if (matches(call, pattern)) return;
      paths.insert(call);
    }
  }
  throw InputError(
      "--whole-modules", fmt::format("no module of {} matches {}", graph.path, pattern),
      "`*` stands for one name between dots, as in layers.*. " + suggestion(pattern, paths));
}

}  // namespace

int divided_modules(const Graph& graph, OperatorId position) {
  return static_cast<int>(divided_calls(graph, position).size());
}

std::vector<OperatorId> outside_whole_modules(const Graph& graph, std::vector<OperatorId> begins,
                                              const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) check_pattern(graph, pattern);
  std::erase_if(begins, [&](OperatorId begin) {
    if (begin == 0) return false;
    return std::ranges::any_of(divided_calls(graph, begin), [&](const std::string& call) {
      return std::ranges::any_of(
          patterns, [&](const std::string& pattern) { return matches(call, pattern); });
    });
  });
  return begins;
}

}  // namespace penstock
