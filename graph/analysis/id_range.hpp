// Which ids an integer input may hold, as far as the operators that read it tell.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.hpp"

namespace penstock {

struct IdRange {
  int64_t limit = 0;               // ids lie in [0, limit): rows of an embedding, classes of a loss
  std::optional<int64_t> ignored;  // or are this one, which the loss leaves out
};

/// By the embeddings and losses that read the input as it is or moved about (viewed, sliced,
/// padded, copied), the narrowest of them; nothing where none does.
std::optional<IdRange> id_range(const Graph& graph, ValueId input);

}  // namespace penstock
