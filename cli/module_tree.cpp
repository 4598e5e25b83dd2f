#include "cli/module_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.hpp"
#include "graph/flops.hpp"
#include "pipeline/quantity.hpp"

namespace penstock::cli {

namespace {

/// `a.b@1` as {a, b}; `call` becomes 2.
std::vector<std::string> parts(std::string path, int64_t& call) {
  call = 1;
  if (const size_t at = path.rfind('@'); at != std::string::npos) {
    call = 1 + std::stoll(path.substr(at + 1));
    path.erase(at);
  }
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
void add_operator(ModuleNode& root, const Operator& op, double flops) {
  const auto add = [&](ModuleNode& node) {
    node.flops += flops;
    ++node.operators;
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

void add_rows(Table& table, const std::vector<ModuleNode>& nodes, size_t depth) {
  for (size_t first = 0; first < nodes.size();) {
    size_t last = first;
    while (last + 1 < nodes.size() && successive(nodes[last].name, nodes[last + 1].name) &&
           alike(nodes[first], nodes[last + 1])) {
      ++last;
    }
    const ModuleNode& node = nodes[first];
    std::string name = std::string(2 * depth, ' ') + node.name;
    if (last > first) name += fmt::format("-{}, each", nodes[last].name);
    if (node.calls > 1) name += fmt::format(" ({} calls)", node.calls);
    table.row({name, node.parameters > 0 ? format_count(static_cast<double>(node.parameters)) : "",
               format_count(node.flops), std::to_string(node.operators)});
    add_rows(table, node.children, depth + 1);
    first = last + 1;
  }
}

}  // namespace

ModuleNode module_tree(const Graph& model) {
  ModuleNode root;
  const auto batch = static_cast<double>(model.example_batch);
  for (const Operator& op : model.operators) {
    add_operator(root, op, forward_flops(model, op, model.example_batch) / batch);
  }
  for (const StoredTensor& tensor : model.tensors) {
    if (tensor.kind == StoredTensor::Kind::parameter) add_parameter(root, tensor);
  }
  return root;
}

std::string module_table(const ModuleNode& root) {
  Table table({"<module", "parameters", "FLOPs per sample", "operators"});
  add_rows(table, root.children, 0);
  table.row({"(all)", format_count(static_cast<double>(root.parameters)), format_count(root.flops),
             std::to_string(root.operators)});
  return table.text();
}

}  // namespace penstock::cli
