#include <algorithm>
#include <numeric>

#include "graph/cuts/cuts.hpp"

namespace penstock {

namespace {

/// The operators that read or update a buffer: they belong into one stage.
std::vector<OperatorId> users(const Graph& model, const BufferUpdate& update) {
  std::vector<OperatorId> result;
  if (const OperatorId producer = model.values[update.value].producer; producer >= 0)
    result.push_back(producer);
  const auto reads_it = [&](ValueId value) { return model.values[value].tensor == update.tensor; };
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const std::vector<ValueId> reads = model.operators[id].reads();
    if (std::any_of(reads.begin(), reads.end(), reads_it))
      result.push_back(static_cast<OperatorId>(id));
  }
  return result;
}

}  // namespace

std::vector<OperatorId> allowed_begins(const Graph& model, std::vector<OperatorId> begins) {
  for (const BufferUpdate& update : model.updates) {
    const std::vector<OperatorId> together = users(model, update);
    if (together.empty()) continue;
    const OperatorId first = *std::min_element(together.begin(), together.end());
    const OperatorId last = *std::max_element(together.begin(), together.end());
    std::erase_if(begins, [&](OperatorId begin) { return first < begin && begin <= last; });
  }
  return begins;
}

std::vector<OperatorId> unit_begins(const Graph& model, const Analysis& analysis) {
  std::vector<OperatorId> begins;
  if (model.layers) {
    begins.resize(model.operators.size());
    std::iota(begins.begin(), begins.end(), 0);
    return begins;
  }
  for (const Unit& unit : units(model, analysis)) begins.push_back(unit.begin);
  return allowed_begins(model, std::move(begins));
}

}  // namespace penstock
