#include "graph/sharding/lookup_axes.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"

namespace penstock::sharding {

std::vector<Axis> embedding_axes(const Call& call) {
  const int last = rank(call.results[0]) - 1;
  std::vector<Axis> axes{{{1, -1}, {last}}};
  if (flag(call.op, "scale_grad_by_freq", false)) return axes;           // counts all ids
  if (!flag(call.op, "sparse", false)) axes.push_back({{0, -1}, {-1}});  // others' ids give zeros
  for (int d = 0; d < last; ++d) axes.push_back({{-1, d}, {d}});
  return axes;
}

std::vector<Axis> index_select_axes(const Call& call) {
  const int n = rank(call.results[0]);
  const int chosen = from_front(integer(call, "dim", 0), n);
  std::vector<Axis> axes;
  for (int d = 0; d < n; ++d) axes.push_back(d == chosen ? Axis{{-1, 0}, {d}} : Axis{{d, -1}, {d}});
  return axes;
}

std::vector<Axis> index_axes(const Call& call) {
  const ArgumentValue* given = argument(call.op, "indices");
  const auto* indices = given ? std::get_if<TensorList>(given) : nullptr;
  if (!indices || call.operands.size() != 2) return {};
  const auto first = std::ranges::find_if(indices->values, [](auto& i) { return i.has_value(); });
  const int indexed = static_cast<int>(first - indices->values.begin());
  const int added = rank(call.operands[1]) - 1;  // dimensions in the place of one
  if (rank(call.results[0]) != rank(call.operands[0]) + added) return {};
  std::vector<Axis> axes;
  for (int d = 0; d < rank(call.operands[0]); ++d)
    if (d != indexed) axes.push_back({{d, -1}, {d < indexed ? d : d + added}});
  for (int d = 0; d <= added; ++d) axes.push_back({{-1, d}, {indexed + d}});
  return axes;
}

std::vector<Axis> gather_axes(const Call& call) {
  const Shape &from = call.operands[0], &index = call.operands[1];
  const int along = from_front(integer(call, "dim", 0), rank(from));
  std::vector<Axis> axes;
  for (int d = 0; d < rank(index); ++d)
    if (d != along && from[d] == index[d]) axes.push_back({{d, d}, {d}});
  return axes;
}

}  // namespace penstock::sharding
