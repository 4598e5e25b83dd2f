#include "launch/node_list.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/error.hpp"

namespace penstock {

namespace {

constexpr size_t kMaxHosts = 1 << 20;

[[noreturn]] void refuse_list(std::string_view place, std::string_view list, const char* form) {
  throw InputError(place, fmt::format("`{}` is not of the form {}", list, form),
                   "Slurm sets it; leave it as it is.");
}

constexpr const char* kHostForm = "node[01-03,7],login";
constexpr const char* kCountForm = "2(x3),1";

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The parts between commas that stand outside of brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth != 0)) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

/// `01-03` or `7`, as text with the zeros of its first number; nothing where it is neither.
std::optional<std::vector<std::string>> expand_range(std::string_view range) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const auto first = whole_number(low);
  const auto last = dash == range.npos ? first : whole_number(range.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  if (static_cast<size_t>(*last - *first) >= kMaxHosts) return std::nullopt;
  std::vector<std::string> numbers;
  for (int64_t n = *first; n <= *last; ++n) numbers.push_back(fmt::format("{:0{}}", n, low.size()));
  return numbers;
}

/// One name with any number of brackets; nothing where it is not well formed.
std::optional<std::vector<std::string>> expand_name(std::string_view name) {
  std::vector<std::string> hosts{""};
  while (!name.empty()) {
    const size_t open = name.find('['), close = name.find(']');
    std::vector<std::string> choices;
    for (std::string& host : hosts) host += name.substr(0, open);
    if (open == name.npos) return close == name.npos ? std::optional(hosts) : std::nullopt;
    if (close == name.npos || close < open) return std::nullopt;
    for (std::string_view range : split_outside_brackets(name.substr(open + 1, close - open - 1))) {
      const auto numbers = expand_range(range);
      if (!numbers || hosts.size() * numbers->size() > kMaxHosts) return std::nullopt;
      choices.insert(choices.end(), numbers->begin(), numbers->end());
    }
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& choice : choices) longer.push_back(host + choice);
    }
    hosts = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list, std::string_view place) {
  std::vector<std::string> hosts;
  for (const std::string_view name : split_outside_brackets(list)) {
    const auto expanded = name.empty() ? std::nullopt : expand_name(name);
    if (!expanded) refuse_list(place, list, kHostForm);
    hosts.insert(hosts.end(), expanded->begin(), expanded->end());
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view list, std::string_view place) {
  std::vector<int> counts;
  for (const std::string_view part : split_outside_brackets(list)) {
    const size_t open = part.find("(x");
    const auto tasks = whole_number(part.substr(0, open));
    std::optional<int> nodes = 1;
    if (open != part.npos) {
      nodes = part.ends_with(')') ? whole_number(part.substr(open + 2, part.size() - open - 3))
                                  : std::nullopt;
    }
    if (!tasks || !nodes || static_cast<size_t>(*nodes) > kMaxHosts) {
      refuse_list(place, list, kCountForm);
    }
    counts.insert(counts.end(), static_cast<size_t>(*nodes), *tasks);
  }
  return counts;
}

}  // namespace penstock
