// Cutting a model into stages: the positions in the export's order where it may be cut, and the
// units between good ones.
#pragma once

#include <string>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"

namespace penstock {

/// Position k lies before operator k. Its values are those produced before and used at or after k,
/// without constants, parameter-derived values, user inputs and stored tensors (they are not sent).
std::vector<ValueId> values_at_cut(const Graph& graph, const Analysis& analysis,
                                   OperatorId position);

/// For each position 0 … number of operators the bytes of its values, each once, for a batch of
/// `batch` samples; all in one sweep.
std::vector<int64_t> cut_bytes(const Graph& graph, const Analysis& analysis, int64_t batch);

/// For each position 0 … number of operators whether a stage may begin there: not between an
/// operator that reads a buffer and the one that computes the buffer's update, since the first
/// would need for its next microbatch what the second has not computed yet.
std::vector<bool> allowed_cuts(const Graph& graph);

/// Positions that exactly one value crosses, and whose value dominates everything after it
/// (dominator tree of the data flow, Boost.Graph). Ascending, without 0.
std::vector<OperatorId> dominator_cuts(const Graph& graph, const Analysis& analysis);

/// A run of operators that the partitioner does not look inside.
struct Unit {
  OperatorId begin = 0, end = 0;  // [begin, end)
  std::string label;  // as a plan's `begin` would name it: module path, call, or operator name
};

/// Units cover all operators in order and begin where cuts are allowed. They lie between dominator
/// cuts; a stretch of more than 1/64 of the model's FLOPs that no single-value cut divides is
/// divided at the cuts with locally smallest bytes and at boundaries of its outermost modules
/// (unless they carry more bytes than the average cut), module boundaries preferred, into pieces of
/// no less than 1/256. Operators that cost next to nothing (together less than 1/2048 of the
/// model's FLOPs) join their neighbour. FLOPs are those of the example batch. Each layer of a table
/// is a unit.
std::vector<Unit> units(const Graph& graph, const Analysis& analysis);

/// The units that begin there, at 0 and on, ascending.
std::vector<Unit> units_at(const Graph& graph, const std::vector<OperatorId>& begins);

/// The first operators of units.
std::vector<OperatorId> begins_of(const std::vector<Unit>& units);
std::vector<OperatorId> unit_begins(const Graph& graph, const Analysis& analysis);

/// The position that a plan's `begin` names: "" is 0; a module path is the first operator of its
/// first call, `iter_block@1` of its second call, `pipe_split@1` what follows the second
/// pipe_split() of the model's code, otherwise an operator's name (`%name` where a module has the
/// same). A container that is not called itself (`layers`) begins with its first child. Throws
/// InputError, place `place`, suggesting the nearest name.
OperatorId begin_position(const Graph& graph, const std::string& begin, const std::string& place);

/// The operators that follow the model's pipe_split() calls: all of them for `pipe_split`, the
/// second for `pipe_split@1`; none for any other name. Throws InputError, place `place`, where the
/// model has no such call.
std::vector<OperatorId> marker_positions(const Graph& graph, const std::string& name,
                                         const std::string& place);

/// The outermost module call that begins at `position`, or else the operator there; "" for 0.
std::string begin_name(const Graph& graph, OperatorId position);

/// Positions for `PATH:beginning` and `PATH:end`; several for a module that is called several
/// times unless the path names the call (`PATH@1:end`). `pipe_split` is every pipe_split() of the
/// model's code, `pipe_split@1` the second. The begin and the end of the model itself are left out.
/// Ascending.
/// Throws InputError, place `--split`.
std::vector<OperatorId> split_positions(const Graph& graph, const std::string& point);

}  // namespace penstock
