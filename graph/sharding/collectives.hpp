// Operators of a local graph that are no operators of PyTorch: what the ranks of a tensor group do
// together, and what only a part can do.
//
// Conversions are `penstock::NAME(self, from, to)`, layouts as Layout::str() has them, NAME that of
// the forward step: identity own_part among_zeros first_only all_reduce reduce_scatter all_gather
// all_to_all. `from` and `to` say what happens to the gradient too (conversions.hpp). An operator
// is the same on all ranks; a rank knows its part and the number of parts when it runs.
//
// `penstock::all_gather_again(self, from, to)` is an all_gather of which the backward keeps `self`:
// operators that read the result, or views of it, save nothing of it, and it is gathered again for
// their backwards.
//
// `penstock::embedding_of_rows(weight, indices, padding_idx=-1, *, rows, held)` looks up what a
// rank has of a table of `rows` rows, held as `held`, and gives zeros for all other indices.
//
// `penstock::cross_entropy_of_classes(self, target, weight=None, reduction=1, ignore_index=-100,
// label_smoothing=0, *, classes, held)` is aten::cross_entropy_loss of logits of `classes` classes,
// of which a rank has those that it has held as `held`; it has targets and class weights whole, and
// the loss. The ranks gather class_numbers numbers of each row. Its backward sends nothing.
#pragma once

#include <optional>

#include "graph/graph.hpp"
#include "graph/sharding/conversions.hpp"

namespace penstock::sharding {

/// With neither name nor outputs. `again`: an all-gather that the backward does again.
Operator conversion_operator(const Conversion& conversion, ValueId value, bool again = false);

/// The conversion that an operator of a local graph is; nothing for any other.
std::optional<Conversion> conversion_of(const Operator& op);

/// Is what it makes gathered again in the backward?
bool gathers_again(const Operator& op);

/// An embedding whose rows are split, as a rank runs it.
Operator embedding_of_rows(Operator embedding, const Layout& held, const Expression& rows);

/// A cross entropy whose classes are split, as a rank runs it.
Operator cross_entropy_of_classes(Operator loss, const Layout& held, const Expression& classes);

/// The dimension of its logits that has the classes, as PyTorch has it.
constexpr int class_dimension(int rank) { return rank < 2 ? 0 : 1; }

/// Numbers that a part gives of each row of logits whose classes are split: the logarithm of the
/// sum of its exponentials, the logit of the target, and the sum of its logits, which smoothed
/// labels need.
inline constexpr int class_numbers = 3;
/// Bytes of these, from all parts, for logits that are or will be `held`. They are in float32 at
/// least.
int64_t class_bytes(const Value& logits, const Layout& held, int64_t batch, int parts);

/// The split in which an operator of a local graph reads the logits of a cross entropy of parts of
/// the classes; nothing for any other.
std::optional<Layout> split_classes(const Operator& op);
/// That of the first output, of which the job computes the loss.
std::optional<Layout> split_classes(const Graph& local);

}  // namespace penstock::sharding
