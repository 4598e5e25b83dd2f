// Small graphs made by hand, for tests of plans.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// A model of linear operators, each with a weight of its own unless it names another's.
class TinyModel {
 public:
  TinyModel();
  /// Adds `name`, which reads the operator before it (or the input), the outputs of the operators
  /// named in `also_reads`, and its weight.
  TinyModel& add(const std::string& name, const std::vector<std::string>& modules,
                 const std::vector<std::string>& also_reads = {}, const std::string& weight = "");
  /// The graph; its output is the last operator's.
  Graph graph() const;

 private:
  ValueId value_named(const std::string& name) const;
  ValueId weight_value(const std::string& weight);

  Graph graph_;
  ValueId last_;
};

/// Four layers in a container: `embed`, `layers.0` to `layers.3` (each `linear` and `relu`),
/// `head`.
TinyModel layered_model();

}  // namespace penstock
