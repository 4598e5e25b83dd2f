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

}  // namespace penstock::sharding
