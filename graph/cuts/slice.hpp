// Slices a graph into stages: what each stage runs, reads, and which values cross between stages.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"

namespace penstock {

/// One value on its way from the stage that produces it to a stage that uses it.
struct Crossing {
  ValueId value;
  bool carries_gradient;  // then a gradient of full size always comes back
};

/// All that stage `producer` hands to stage `consumer`, in graph order.
struct StageEdge {
  int producer, consumer;
  std::vector<Crossing> values;
};

/// Operators [begin, end), as far as they are the stage's.
struct Segment {
  OperatorId begin = 0, end = 0;
  bool contains(OperatorId op) const { return begin <= op && op < end; }
  bool operator==(const Segment&) const = default;
};

struct StageSlice {
  /// Own operators and recomputed ones (constants, parameter-derived values), in graph order.
  std::vector<OperatorId> operators;
  std::vector<ValueId> user_inputs;   // read from the data
  std::vector<int> tensors;           // indices in Graph::tensors that it reads or updates
  std::vector<BufferUpdate> updates;  // buffers that this stage owns
  std::vector<int> outputs;           // indices in Graph::outputs that this stage produces
  /// Parts whose backward runs their forward again, ascending and apart: segments.hpp; `slice`
  /// leaves it empty.
  std::vector<Segment> recomputed;
  /// For layers (Graph::layers): the choice that each makes which does not keep everything.
  std::map<OperatorId, std::string> choices;
};

struct Slicing {
  std::vector<int> stage_of_operator;
  std::vector<StageSlice> stages;
  std::vector<StageEdge> edges;  // ascending (producer, consumer), without empty ones
  /// Trainable tensors read by several stages: index in Graph::tensors, stages ascending. Each
  /// holder steps a copy of its own, or the first one's rank does for all and transmits the new
  /// values; `slice` leaves it at the former.
  struct Shared {
    int tensor;
    std::vector<int> stages;
    bool transmitted = false;
  };
  std::vector<Shared> shared;
};

/// `stage_of_operator[k]` in [0, stages). The graph of stages must be acyclic in the order of their
/// numbers: throws InputError naming a value that goes from a later stage to an earlier one.
/// A user output that is an input, parameter or plain value belongs to the last stage.
Slicing slice(const Graph& graph, const Analysis& analysis, std::vector<int> stage_of_operator,
              int stages);

/// Stages that are intervals: stage s owns the operators from begins[s] up to begins[s + 1].
/// begins[0] is 0, strictly ascending.
std::vector<int> interval_stages(const Graph& graph, const std::vector<OperatorId>& begins);

/// The segment that an operator lies in; segments.size() where it is kept.
size_t segment_of(const std::vector<Segment>& segments, OperatorId op);

/// Whether the stage makes the model's first output, which the loss is computed from.
bool makes_loss(const StageSlice& slice);

}  // namespace penstock
