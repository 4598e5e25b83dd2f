#include "graph/sharding/lookup_axes.hpp"

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

std::vector<Axis> gather_axes(const Call& call) {
  const Shape &from = call.operands[0], &index = call.operands[1];
  const int along = from_front(integer(call, "dim", 0), rank(from));
  std::vector<Axis> axes;
  for (int d = 0; d < rank(index); ++d)
    if (d != along && from[d] == index[d]) axes.push_back({{d, d}, {d}});
  return axes;
}

}  // namespace penstock::sharding
