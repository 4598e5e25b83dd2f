// Facts about ATen operators, without LibTorch: one table says what is known of each, and the
// functions of this folder compute from it.
//
// An operator is added by naming it in an entry of table.cpp; it takes a formula, in facts.cpp,
// flops.cpp, graph/functional/ or estimate/, only where it behaves like none that is there. A name
// that no entry has stands for an operator of which nothing is known: it has no effects, computes
// once for each element and keeps what it reads.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "graph/graph.hpp"

namespace penstock {

/// Operators that come equally near to what a device can do.
enum class OperatorClass {
  gemm,       // linear, matmul, …; recurrent layers
  attention,  // fused
  convolution,
  normalisation,  // layer, batch, group norm; softmax
  elementwise,    // and whatever moves or fills memory
  reduction,
  lookup,     // embedding, index, gather
  optimizer,  // no operator's: a step, adding gradients up, clearing them
};
inline constexpr int operator_classes = 8;

/// The columns of the table.
struct OperatorTraits {
  /// Does the output share memory with an input, and how is a changed output put back into it?
  enum class View {
    never,
    perhaps,        // the input, a view or a copy, by strides and the like; counts as no view
    shape_or_copy,  // the same, but counts as a view
    shape,          // put back by a reshape
    swap,           // by the same operator again
    permutation,    // by the inverse one
    part,           // by `NAME_scatter`
    other,          // cannot be put back
  };
  enum class Random {
    never,
    always,
    dropout,            // with p > 0, unless train=false
    attention_dropout,  // with dropout_p > 0
    recurrent_dropout,  // with dropout > 0 and train=true
    training,           // with training=true
  };
  /// Writes to an input, beside what the name says: `relu_`, `add.out`.
  enum class Writes {
    by_name,
    statistics,           // running statistics, unless training=false
    instance_statistics,  // the same, unless use_input_stats=false
    copy,                 // nothing but what it is given
    unlike_functional,    // more than its first argument, or what a tensor is
  };
  /// The gradients of the operands, from that of the result.
  enum class Gradient {
    computed,
    passed,             // the result's, a part or a sum of it: costs nothing
    shared,             // the very tensor of the result's
    first_output_only,  // the other outputs are statistics
    stopped,            // none, although they are floating point
  };
  enum class Flops {
    per_element,
    none,
    linear,         // input @ weight + bias
    product,        // self @ another
    added_product,  // self + one @ another
    bilinear,
    convolution,
    transposed_convolution,
    attention,
    recurrent,
    normalisation,
    softmax,
    reduction,
    lookup,        // none, and reads of its table as much as it returns
    embedding_bag  // adds up the rows that it reads
  };
  /// Kept for the backward, as PyTorch's derivatives.yaml has it.
  enum class Saved {
    operands,    // data that it reads: gelu, pow, …
    nothing,     // add, cat, …; of lookups and choices the positions
    result,      // softmax, relu, …
    factors,     // products: each factor where another one gets a gradient
    divisor,     // the divisor, and both where the divisor gets a gradient
    norm,        // its input, and mean and deviation of each row or channel
    group_norm,  // the same of each group
    attention,   // query, key, value, result, and the log-sum-exp of each row
    mask,        // the factors that a dropout multiplied with
    positions,   // its input, and where each maximum was
  };

  /// How the operator may be split over a tensor group (graph/sharding/), by its dimensions.
  enum class Sharding {
    whole,                   // not at all
    pointwise,               // along any, operands broadcast to the result
    linear_pointwise,        // the same, and it is linear: add, neg, clone
    scaled,                  // the same where the other operand is a number: mul, div
    linear,                  // input @ weight + bias
    product,                 // self @ another
    added_product,           // self + one @ another
    view,                    // by the order of its elements
    squeezed,                // the same, but a part of size 1 would be squeezed too
    permuted,                // each goes where it goes
    expanded,                // along those that it does not repeat
    selected,                // along all but `dim`, which the result lacks
    one_dimension,           // along all but `dim`
    classes,                 // along the classes of a cross entropy
    pieces,                  // the same, and along `dim` by whole blocks: split, cat
    norm,                    // along those before `normalized_shape`
    sum,                     // along all; over a reduced one it gives terms
    mean,                    // the same, terms of the mean
    reduced,                 // along those that are left
    stacked,                 // along those that it does not add
    embedding,               // along columns, rows or ids
    index_select,            // along all: of `dim` the index is
    index,                   // along those that it leaves, and those of its index where it has one
    gather,                  // along those but `dim` that are as long as the index
    repeated,                // along those that it does not repeat
    reordered,               // along those that `dims` does not name
    padded,                  // along those that it does not pad
    attention,               // along batch and heads
    convolution,             // along batch and channels, by whole groups where there are some
    transposed_convolution,  // the same
    pooling,                 // along batch and channels, which it keeps
    batch_norm,              // along channels
    group_norm,              // along batch and channels, by whole groups
  };

  View view = View::never;
  Random random = Random::never;
  Writes writes = Writes::by_name;
  bool assertion = false;   // computes nothing; can be left out where nothing reads its outputs
  bool comparison = false;  // its result is a truth value
  /// With reduction=mean it divides by the weight of the targets that are not ignore_index.
  bool counts_targets = false;
  /// The operator that does the same without writing, where that is not the name without its `_`.
  std::string_view functional;
  Gradient gradient = Gradient::computed;
  Flops flops = Flops::per_element;
  Saved saved = Saved::operands;
  Sharding sharding = Sharding::whole;
  std::optional<OperatorClass> time;  // where empty, that of the name's family (lookup.cpp)

  bool operator==(const OperatorTraits&) const = default;
};

/// An entry: operators that behave alike, their names without `aten::` separated by spaces.
struct OperatorGroup {
  std::string_view names;
  OperatorTraits traits;
};
std::span<const OperatorGroup> operator_table();

/// By name without namespace; null for an operator that is in no entry.
const OperatorTraits* find_traits(std::string_view name);
/// Traits of an operator of ATen, or of Penstock's own (graph/sharding/collectives.hpp); any other
/// has those of an unknown one.
const OperatorTraits& traits_of(const Operator& op);
/// The same of operators of ATen and of prims, which share names for what has the same effects.
const OperatorTraits& effects_of(const Operator& op);
/// The same whatever the namespace is: an operator of the user's own is taken to be as fast as its
/// namesake.
const OperatorTraits& namesake_of(const Operator& op);

/// The class that the operator's time is estimated by: its entry's, or that of a family of names.
OperatorClass class_of(const Operator& op);
/// Does an operator without the `_` of this name do the same without writing?
bool has_functional_form(std::string_view in_place_name);

}  // namespace penstock
