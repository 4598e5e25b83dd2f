// Views of a parameter whose gradient is a part of the parameter's gradient: split, select,
// transpose, view. They need no autograd graph: the store adds their gradient in place.
#pragma once

#include <map>
#include <optional>

#include "backend/operators/interpreter.hpp"
#include "backend/stage/recipe/store.hpp"

namespace penstock {

/// Finds such views by running view operators, which move no data, on the parameters themselves.
class ParameterViews {
 public:
  ParameterViews(const Graph& graph, TensorStore& store);

  struct View {
    int tensor;
    ViewGeometry geometry;
  };
  /// Adds the outputs of a view operator if all of them are such views of one parameter (or of a
  /// view added before), without overlap in themselves. Otherwise adds nothing and returns false.
  bool add(const PreparedOperator& prepared);
  const std::map<ValueId, View>& views() const { return views_; }

 private:
  const Graph& graph_;
  TensorStore& store_;
  ValueTable values_;
  std::map<ValueId, View> views_;
};

/// The elements of `parameter` that the view covers.
at::Tensor view_of(const at::Tensor& parameter, const ViewGeometry& geometry);

}  // namespace penstock
