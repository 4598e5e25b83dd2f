#include "graph/sharding/conversions.hpp"

namespace penstock::sharding {
namespace {

using Kind = Layout::Kind;

bool is_whole(const Layout& layout) {
  return layout.kind() == Kind::identical || layout.kind() == Kind::replicated;
}

Step from_whole(const Layout& to) {
  if (is_whole(to)) return Step::keep;
  return to.is_split() ? Step::slice : Step::first_only;
}

Step from_split(const Layout& to) {
  if (is_whole(to)) return Step::all_gather;
  return to.is_split() ? Step::all_to_all : Step::pad;
}

Step from_partial(const Layout& to) {
  return is_whole(to) ? Step::all_reduce : Step::reduce_scatter;
}

Step step(const Layout& from, const Layout& to) {
  if (from == to) return Step::keep;
  if (is_whole(from)) return from_whole(to);
  return from.is_split() ? from_split(to) : from_partial(to);
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string_view name(Step step) {
  switch (step) {
    case Step::keep: return "keep";
    case Step::slice: return "slice";
    case Step::pad: return "pad";
    case Step::first_only: return "first_only";
    case Step::all_reduce: return "all_reduce";
    case Step::reduce_scatter: return "reduce_scatter";
    case Step::all_gather: return "all_gather";
    case Step::all_to_all: return "all_to_all";
  }
  return "";
}

bool reduces(Step forward) {
  return forward == Step::slice || forward == Step::all_reduce || forward == Step::reduce_scatter;
}

Conversion conversion(const Layout& from, const Layout& to) {
  return {from, to, step(from, to), step(to.gradient(), from.gradient())};
}

int64_t bytes_sent(Step step, int64_t bytes, int parts) {
  const int64_t piece = divide_up(bytes, parts);
  switch (step) {
    case Step::all_reduce: return 2 * (parts - 1) * piece;
    case Step::reduce_scatter:
    case Step::all_gather: return (parts - 1) * piece;
    case Step::all_to_all: return (parts - 1) * divide_up(piece, parts);
    default: return 0;
  }
}

}  // namespace penstock::sharding
