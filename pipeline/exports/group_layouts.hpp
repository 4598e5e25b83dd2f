// How a plan's tensor groups hold a model, as exports to other tools read it.
#pragma once

#include <string>
#include <vector>

#include "pipeline/exports/exports.hpp"

namespace penstock {

/// A product with a weight: each rank has columns of the result, or, from some of the operand's
/// columns, a term of it.
enum class ProductSplit { none, columns, rows };

struct WeightProduct {
  int tensor;  // the weight
  ProductSplit split;
};

/// Products with weights among the operators [begin, end), in their order. `source` has tensor
/// groups.
std::vector<WeightProduct> weight_products(const ExportSource& source, OperatorId begin,
                                           OperatorId end);

/// How a value is held when it leaves the module that makes it: as it is made, and reduced where it
/// is made in terms.
sharding::Layout handed_on(const ExportSource& source, ValueId value);

/// Is a value split along a dimension that is neither the batch nor the last one?
bool splits_sequence(const Value& value, const sharding::Layout& layout);

/// Each once, and those that differ in the number of a layer as one: `blocks.*.mlp.0.weight`.
std::vector<std::string> name_patterns(const std::vector<std::string>& names);

}  // namespace penstock
