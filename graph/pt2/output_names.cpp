// Names of the user outputs: the exporter describes a structured output as a tree whose nodes have
// a type, a context (a dictionary's keys as JSON text) and children.
#include <fmt/format.h>

#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

constexpr int deepest_structure = 100;

std::vector<std::string> keys(const Json& node, size_t count) {
  std::vector<std::string> names;
  const auto type = node.at("type").get<std::string>();
  if (type.ends_with("dict") || type.ends_with("Dict"))
    for (const Json& key : parse(node.at("context").get<std::string>()))
      names.push_back(key.is_string() ? key.get<std::string>() : key.dump());
  if (names.size() != count) names.clear();
  for (size_t i = names.size(); i < count; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

void leaves(const Json& node, const std::string& path, int depth, std::vector<std::string>& names) {
  const Json& children = node.at("children_spec");
  if (node.at("type").is_null() || depth > deepest_structure) {
    names.push_back(path.empty() ? "output" : path);
    return;
  }
  const auto steps = keys(node, children.size());
  for (size_t i = 0; i < children.size(); ++i)
    leaves(children[i], path.empty() ? steps[i] : path + "." + steps[i], depth + 1, names);
}

}  // namespace

std::vector<std::string> output_names(const Json& model, size_t count) {
  std::vector<std::string> names;
  try {
    const Json& root = model.at("graph_module").at("module_call_graph").at(0);
    const Json spec = parse(root.at("signature").at("out_spec").get<std::string>());
    leaves(spec.at(1), "", 0, names);
  } catch (const nlohmann::json::exception&) {
    names.clear();  // a type of output that only its Python program knows: positions do
  }
  if (names.size() == count) return names;
  names.clear();
  for (size_t i = 0; i < count; ++i)
    names.push_back(count == 1 ? std::string("output") : fmt::format("{}", i));
  return names;
}

}  // namespace penstock::pt2
