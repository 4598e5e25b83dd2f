#include "graph/sharding/layout.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace penstock::sharding {
namespace {

void require_fit(const Layout& layout, const Shape& shape, int parts) {
  if (!fits(layout, shape, parts))
    throw std::invalid_argument(fmt::format("{} does not fit {} parts", layout.str(), parts));
}

/// Takes a number off the front of `text`.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<Layout> parse_split(std::string_view text) {
  if (!take(text, "S(")) return std::nullopt;
  const auto dimension = take_number(text);
  const auto blocks = take(text, ", ") ? take_number(text) : std::optional<int64_t>(1);
  if (!dimension || !blocks || text != ")" || *dimension < 0 || *dimension > 63 || *blocks < 1)
    return std::nullopt;
  return Layout::split(static_cast<int>(*dimension), *blocks);
}

}  // namespace

Layout Layout::split(int dimension, int64_t blocks) {
  if (dimension < 0 || blocks < 1) throw std::invalid_argument("no such split");
  return Layout(Kind::split, dimension, blocks);
}

Layout Layout::gradient() const {
  if (kind_ == Kind::replicated) return partial();
  if (kind_ == Kind::partial) return replicated();
  return *this;
}

std::string Layout::str() const {
  switch (kind_) {
    case Kind::identical: return "I";
    case Kind::replicated: return "R";
    case Kind::partial: return "P";
    case Kind::split: break;
  }
  return blocks_ == 1 ? fmt::format("S({})", dimension_)
                      : fmt::format("S({}, {})", dimension_, blocks_);
}

std::optional<Layout> Layout::parse(std::string_view text) {
  for (const Layout& layout : {identical(), replicated(), partial()})
    if (text == layout.str()) return layout;
  const auto layout = parse_split(text);
  return layout && layout->str() == text ? layout : std::nullopt;
}

bool fits(const Layout& layout, const Shape& shape, int parts) {
  if (!layout.is_split()) return true;
  if (layout.dimension() >= static_cast<int>(shape.size())) return false;
  const int64_t size = shape[layout.dimension()];
  return size > 0 && size % layout.blocks() == 0 && size / layout.blocks() % parts == 0;
}

Shape local_shape(const Layout& layout, Shape shape, int parts) {
  require_fit(layout, shape, parts);
  if (layout.is_split()) shape[layout.dimension()] /= parts;
  return shape;
}

std::vector<Range> held_ranges(const Layout& split, const Shape& shape, int parts, int part) {
  if (!split.is_split()) throw std::invalid_argument(split.str() + " splits no dimension");
  require_fit(split, shape, parts);
  const int64_t block = shape[split.dimension()] / split.blocks();
  const int64_t length = block / parts;
  std::vector<Range> ranges;
  for (int64_t i = 0; i < split.blocks(); ++i) {
    const int64_t begin = i * block + part * length;
    ranges.push_back({begin, begin + length});
  }
  return ranges;
}

std::optional<Layout> view_split(const Layout& split, const Shape& from, const Shape& to,
                                 int parts) {
  if (!split.is_split() || !fits(split, from, parts))
    throw std::invalid_argument(split.str() + " does not split what is viewed");
  int64_t turns = split.blocks();
  for (int d = 0; d < split.dimension(); ++d) turns *= from[d];
  int64_t before = 1;
  for (int e = 0; e < static_cast<int>(to.size()); before *= to[e++]) {
    if (turns % before != 0) return std::nullopt;
    const Layout candidate = Layout::split(e, turns / before);
    if (fits(candidate, to, parts)) return candidate;
  }
  return std::nullopt;
}

}  // namespace penstock::sharding
