// The pieces of the `.pt2` reader: each turns one part of the exporter's JSON into the Graph.
// Internal to graph/. They throw InputError; what nlohmann-json throws is turned into one by
// read_pt2.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.hpp"
#include "graph/pt2/zip.hpp"

namespace penstock::pt2 {

using Json = nlohmann::json;

/// Names of one graph; a nested graph has its own, bound to the outer ones by position.
struct Scope {
  const Json& graph;
  std::unordered_map<std::string, ValueId> tensors;
  std::unordered_map<std::string, Expression> sizes;
  bool grad_enabled = true;
  int depth = 0;
  std::optional<Autocast> autocast;
};

/// State that the pieces share.
struct ModelReader {
  ModelReader(const std::string& path, Graph& into) : place(path), graph(into) {}

  std::string place;           // the file, for messages
  const Json* node = nullptr;  // the operator at work, for messages
  Graph& graph;
  std::string batch_symbol;                                          // empty if no size is open
  std::unordered_map<std::string, Expression> expressions;           // by their text
  std::unordered_map<std::string, int> value_names, operator_names;  // how often taken
  std::unordered_map<std::string, int> tensors;  // index in graph.tensors, by name
  std::unordered_map<int, ValueId> bound;        // the value of a tensor
  std::set<std::string> marked;  // nodes before which the exporter found a pipe_split()
  std::map<std::string, std::vector<Argument>> evaluated;  // in evaluation mode, by node; not read

  [[noreturn]] void refuse(const std::string& problem, const std::string& cure = "") const;
  /// `operator torch.ops.aten.nonzero.default (nonzero): `, or nothing outside of operators.
  std::string at_work() const;
  /// `name`, or with a number after it if another value (operator) has it.
  std::string unique_value(const std::string& name) { return unique(name, value_names); }
  std::string unique_operator(const std::string& name) { return unique(name, operator_names); }

 private:
  static std::string unique(const std::string& name, std::unordered_map<std::string, int>& taken);
};

// json.cpp: the only place that parses, since that is what takes long to compile.

Json parse(const std::string& text);
/// A number that is whole; nlohmann-json alone would also take what no integer can be, 1e300.
int64_t whole(const Json& value);
/// The same, -1 where it does not fit.
int small(const Json& value);
/// A document `{"config": {NAME: …, …}}` and the names in the order of the text, which objects
/// forget.
std::pair<Json, std::vector<std::string>> parse_config(const std::string& text);

// tensors.cpp: weights and constants.

/// Every tensor that the two configurations describe, and which of them are tied.
struct Payloads {
  std::vector<StoredTensor> tensors;                 // one for each name, in the order of the files
  std::vector<std::vector<size_t>> groups;           // indices of tensors that are one tensor
  std::unordered_map<std::string, size_t> group_of;  // by name
};
Payloads read_payloads(const Zip& zip, const ModelReader& reader);
/// Groups tied tensors: those at one location, and the groups of names in `named`.
void tie(Payloads& payloads, const std::vector<std::vector<std::string>>& named);
/// The index in graph.tensors of the tensor called `name`; added when it is first asked for.
int find_tensor(ModelReader& reader, const Payloads& payloads, const std::string& name,
                StoredTensor::Kind kind);

// sizes.cpp

/// An integer or float that may be an expression: `{"as_int": 3}`, `{"as_expr": {…}}`.
Expression read_size(ModelReader& reader, const Json& size);
/// The expression that a name stands for in this scope.
Expression size_named(ModelReader& reader, Scope& scope, const std::string& name);
/// An argument that is a size or a number, by name or by value.
Expression read_size_argument(ModelReader& reader, Scope& scope, const Json& argument);
/// If the node computes a size, remembers its expression and returns true.
bool take_size_operator(ModelReader& reader, Scope& scope, const Json& node);

// arguments.cpp

ArgumentValue read_argument(ModelReader& reader, Scope& scope, const Json& argument);
/// The member `{"as_int": 3}` of a union: its tag and its value.
std::pair<std::string, const Json*> member(const Json& tagged);

/// A float; the JSON has strings for infinities and NaN.
double real(const Json& value);
/// The name that the export gives the node; before torch 2.11 only its first output has it.
std::string node_name(const Json& node);

// signature.cpp

/// Binds the graph's inputs, finds the batch symbol and its range.
void read_inputs(ModelReader& reader, Scope& scope, const Json& model, const Payloads& payloads);
void read_outputs(ModelReader& reader, Scope& scope, const Json& model);
// output_names.cpp

/// The names of the user outputs from the exporter's tree of outputs: keys and positions.
std::vector<std::string> output_names(const Json& model, size_t count);

// graph.cpp

/// A value described by the graph's table; -1 if the table does not know it.
ValueId add_value(ModelReader& reader, Scope& scope, const std::string& name, Value::Kind kind);
/// Appends the operators of a graph; nested graphs are put in place.
void read_nodes(ModelReader& reader, Scope& scope);
// nested.cpp

/// If the node wraps a nested graph, puts its operators in place and returns true.
bool take_nested_graph(ModelReader& reader, Scope& scope, const Json& node);

}  // namespace penstock::pt2
