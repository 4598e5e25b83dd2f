#include "cli/report/module_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.hpp"
#include "cli/report/table.hpp"
#include "graph/operators/flops.hpp"

namespace penstock::cli {

namespace {

/// `a.b@1` as {a, b}; `call` becomes 2.
std::vector<std::string> parts(const std::string& of, int64_t& call) {
  const std::string path = module_of_call(of);
  call = path == of ? 1 : 1 + std::stoll(of.substr(path.size() + 1));
  std::vector<std::string> result;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    result.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

ModuleNode& child(ModuleNode& node, const std::string& name) {
  const auto known = std::ranges::find(node.children, name, &ModuleNode::name);
  if (known != node.children.end()) return *known;
  node.children.push_back({.name = name});
  return node.children.back();
}

/// Adds to every node from the root to the operator's innermost module, and notes all calls.
void add_operator(ModuleNode& root, const Operator& op, double flops, const OperatorCost* cost) {
  const auto add = [&](ModuleNode& node) {
    node.flops += flops;
    ++node.operators;
    if (cost == nullptr) return;
    node.forward_s += cost->times.forward.mean_s;
    node.backward_s += cost->times.backward.mean_s;
  };
  add(root);
  for (const std::string& module : op.modules) {
    int64_t call = 1;
    ModuleNode* node = &root;
    const bool innermost = &module == &op.modules.back();
    for (const std::string& name : parts(module, call)) {
      node = &child(*node, name);
      if (innermost) add(*node);
    }
    node->calls = std::max(node->calls, call);
  }
}

void add_parameter(ModuleNode& root, const StoredTensor& tensor) {
  int64_t call = 1;
  std::vector<std::string> path = parts(tensor.name, call);
  path.pop_back();
  ModuleNode* node = &root;
  node->parameters += tensor.elements();
  for (const std::string& name : path) {
    node = &child(*node, name);
    node->parameters += tensor.elements();
  }
}

bool alike(const ModuleNode& a, const ModuleNode& b) {
  return a.parameters == b.parameters && a.operators == b.operators && a.calls == b.calls &&
         a.flops == b.flops && a.children.size() == b.children.size() &&
         std::ranges::equal(a.children, b.children, [](const ModuleNode& x, const ModuleNode& y) {
           return x.name == y.name && alike(x, y);
         });
}

/// `b` is the next number after `a`: 3 and 4.
bool successive(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) {
    const bool digits = !text.empty() && text.size() < 10 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::stoi(text) : -2;
  };
  return number(a) >= 0 && number(b) == number(a) + 1;
}

/// Adds the times of a module that is alike, and those of its children.
void add_times(ModuleNode& sum, const ModuleNode& other) {
  sum.forward_s += other.forward_s;
  sum.backward_s += other.backward_s;
  for (size_t k = 0; k < sum.children.size(); ++k) add_times(sum.children[k], other.children[k]);
}

void divide_times(ModuleNode& node, double count) {
  node.forward_s /= count;
  node.backward_s /= count;
  for (ModuleNode& child : node.children) divide_times(child, count);
}

/// Modules [first, last], which are alike, as one with their mean times.
ModuleNode average(const std::vector<ModuleNode>& nodes, size_t first, size_t last) {
  ModuleNode mean = nodes[first];
  for (size_t k = first + 1; k <= last; ++k) add_times(mean, nodes[k]);
  divide_times(mean, static_cast<double>(last - first + 1));
  return mean;
}

std::vector<std::string> cells(const std::string& name, const ModuleNode& node, bool timed) {
  std::vector<std::string> row = {
      name, node.parameters > 0 ? format_count(static_cast<double>(node.parameters)) : "",
      format_count(node.flops), std::to_string(node.operators)};
  if (timed) {
    row.push_back(format_seconds(node.forward_s));
    row.push_back(format_seconds(node.backward_s));
  }
  return row;
}

void add_rows(Table& table, const std::vector<ModuleNode>& nodes, size_t depth, bool timed) {
  for (size_t first = 0; first < nodes.size();) {
    size_t last = first;
    while (last + 1 < nodes.size() && successive(nodes[last].name, nodes[last + 1].name) &&
           alike(nodes[first], nodes[last + 1])) {
      ++last;
    }
    const ModuleNode node = average(nodes, first, last);
    std::string name = std::string(2 * depth, ' ') + node.name;
    if (last > first) name += fmt::format("-{}, each", nodes[last].name);
    if (node.calls > 1) name += fmt::format(" ({} calls)", node.calls);
    table.row(cells(name, node, timed));
    add_rows(table, node.children, depth + 1, timed);
    first = last + 1;
  }
}

}  // namespace

ModuleNode module_tree(const Graph& model, const MicrobatchCosts* costs) {
  ModuleNode root;
  const auto batch = static_cast<double>(model.example_batch);
  for (size_t id = 0; id < model.operators.size(); ++id) {
    const Operator& op = model.operators[id];
    add_operator(root, op, forward_flops(model, op, model.example_batch) / batch,
                 costs ? &costs->operators.at(id) : nullptr);
  }
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.kind == StoredTensor::Kind::parameter) add_parameter(root, tensor);
  }
  return root;
}

std::string module_table(const ModuleNode& root, bool timed, int columns) {
  std::vector<std::string> headings = {"<module", "parameters", "FLOPs per sample", "operators"};
  if (timed) headings.insert(headings.end(), {"forward", "backward"});
  Table table(headings);
  add_rows(table, root.children, 0, timed);
  table.row(cells("(all)", root, timed));
  return table.text(columns);
}

}  // namespace penstock::cli
