#include "backend/stage/recipe/parameter_views.hpp"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

/// Is no element reached by two indices: does each stride exceed the reach of all smaller ones?
bool without_overlap(const at::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, size
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::ranges::sort(dimensions);
  int64_t reach = 0;
  for (const auto& [stride, size] : dimensions) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

bool is_plain_view(const at::Tensor& view, const at::Tensor& parameter) {
  return view.defined() && view.is_alias_of(parameter) &&
         view.scalar_type() == parameter.scalar_type() && !view.is_conj() && !view.is_neg() &&
         without_overlap(view);
}

}  // namespace

ParameterViews::ParameterViews(const Graph& graph, TensorStore& store)
    : graph_(graph), store_(store), values_(graph.values.size()) {}

bool ParameterViews::add(const PreparedOperator& prepared) {
  const Operator& op = prepared.op();
  const std::vector<ValueId> reads = op.reads();
  if (!is_view(op) || reads.size() != 1) return false;
  const auto base = views_.find(reads[0]);
  const int index = base != views_.end() ? base->second.tensor
                                         : graph_.values[static_cast<size_t>(reads[0])].tensor;
  if (index < 0) return false;
  const at::NoGradGuard no_grad;
  const at::Tensor& parameter = store_.tensor(index);
  at::Tensor& input = values_[static_cast<size_t>(reads[0])];
  if (!input.defined()) input = parameter;
  prepared.run(values_, graph_.example_batch);
  const auto plain = [&](ValueId v) {
    return v < 0 || is_plain_view(values_[static_cast<size_t>(v)], parameter);
  };
  if (!std::ranges::all_of(op.outputs, plain)) return false;
  for (const ValueId v : op.outputs) {
    if (v < 0) continue;
    const at::Tensor& view = values_[static_cast<size_t>(v)];
    views_[v] = {index,
                 {view.sizes().vec(), view.strides().vec(),
                  view.storage_offset() - parameter.storage_offset()}};
  }
  return true;
}

at::Tensor view_of(const at::Tensor& parameter, const ViewGeometry& geometry) {
  return parameter.as_strided(geometry.sizes, geometry.strides,
                              parameter.storage_offset() + geometry.offset);
}

}  // namespace penstock
