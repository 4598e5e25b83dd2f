#include "graph/pt2/pt2.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "graph/functional/functional.hpp"
#include "graph/operators/facts.hpp"
#include "graph/pt2/reader.hpp"

namespace penstock {
namespace pt2 {

void ModelReader::refuse(const std::string& problem, const std::string& cure) const {
  throw InputError(place, problem, cure);
}

std::string ModelReader::at_work() const {
  if (node == nullptr) return "";
  return fmt::format("operator {} ({}): ", node->value("target", std::string("?")),
                     node_name(*node));
}

std::string ModelReader::unique(const std::string& name,
                                std::unordered_map<std::string, int>& taken) {
  if (taken[name]++ == 0) return name;
  std::string candidate;
  do candidate = fmt::format("{}_{}", name, taken[name]++);
  while (taken.contains(candidate));
  taken[candidate] = 1;
  return candidate;
}

namespace {

constexpr const char* export_cure =
    "Export it with tools/export_model.py and the torch of Penstock's .venv.";

/// Each minor version adds to the one before: 8.14 is torch 2.9's, 8.15 2.10's, 8.17 2.11's, 8.20
/// 2.15's. Older ones lay the archive out differently, newer ones may hold what is not read here.
constexpr int schema_major = 8, oldest_minor = 14, newest_minor = 20;

void check_version(const Json& version, const ModelReader& reader) {
  const int major = small(version.at("major")), minor = small(version.at("minor"));
  if (major == schema_major && oldest_minor <= minor && minor <= newest_minor) return;
  reader.refuse(fmt::format("has schema version {}.{}, Penstock reads {}.{} to {}.{} (torch 2.9 to "
                            "2.15)",
                            major, minor, schema_major, oldest_minor, schema_major, newest_minor),
                export_cure);
}

/// The one model of the archive; an archive may hold several, Penstock takes one.
Json read_model(const Zip& zip, const ModelReader& reader) {
  const auto names = zip.find("models/", ".json");
  if (names.size() != 1)
    reader.refuse(fmt::format("holds {} models instead of one", names.size()), export_cure);
  if (const std::string order = zip.full("byteorder");
      zip.has(order) && zip.read(order) != "little")
    reader.refuse("was written on a machine with another byte order", export_cure);
  Json model = parse(zip.read(names.front()));
  check_version(model.at("schema_version"), reader);
  return model;
}

/// Facts that tools/export_model.py found out about the model; absent in files of other exporters.
Json read_facts(const Zip& zip) {
  const std::string member = zip.full("extra/penstock.json");
  return zip.has(member) ? parse(zip.read(member)) : Json::object();
}

ArgumentValue plain_value(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return whole(value);
  return real(value);
}

void read_evaluation(const Json& facts, ModelReader& reader) {
  const auto found = facts.find("evaluation");
  if (found == facts.end()) return;
  reader.graph.evaluation.emplace().differs = found->value("differs", "");
  const Json changed = found->value("arguments", Json::object());
  for (const auto& [node, arguments] : changed.items()) {
    for (const auto& [name, value] : arguments.items())
      reader.evaluated[node].push_back({name, plain_value(value)});
  }
}

void apply_facts(const Json& facts, ModelReader& reader, Payloads& payloads) {
  read_evaluation(facts, reader);
  reader.marked = facts.value("splits", std::set<std::string>{});
  const auto coupled = facts.find("batch_coupled");
  if (coupled != facts.end() && !coupled->is_null())
    reader.graph.batch_coupled = coupled->get<bool>();
  tie(payloads, facts.value("tied", std::vector<std::vector<std::string>>{}));
}

/// torch.export gives an LSTM's last states a dimension too many, and so all that follows from
/// them; where nothing does, it makes no difference.
void refuse_wrong_states(const ModelReader& reader) {
  const Graph& graph = reader.graph;
  const auto returned = [&](ValueId value) {
    return std::ranges::any_of(graph.outputs, [&](const Output& output) {
      const auto* tensor = std::get_if<TensorRef>(&output.value);
      return tensor && tensor->value == value;
    });
  };
  for (const Operator& op : graph.operators) {
    if (op.target != "aten::lstm" || op.overload != "input") continue;
    for (size_t i = 1; i < op.outputs.size(); ++i) {
      const ValueId state = op.outputs[i];
      if (state < 0 || graph.values[state].shape.size() <= 3) continue;
      if (graph.consumers()[state].empty() && !returned(state)) continue;
      reader.refuse(fmt::format("operator {} ({}): torch.export wrote `{}` with {} dimensions, but "
                                "it has 3",
                                full_name(op), op.name, graph.values[state].name,
                                graph.values[state].shape.size()),
                    "Export the model with tools/export_model.py, which corrects that.");
    }
  }
}

void read_into(Graph& graph, const std::string& path) {
  const Zip zip(path);
  ModelReader reader(path, graph);
  const Json model = read_model(zip, reader);
  Payloads payloads = read_payloads(zip, reader);
  apply_facts(read_facts(zip), reader, payloads);
  Scope scope{model.at("graph_module").at("graph"), {}, {}, true, 0};
  read_inputs(reader, scope, model, payloads);
  read_nodes(reader, scope);
  if (!reader.evaluated.empty())
    reader.refuse(fmt::format("has no operator {}, which evaluation mode changes",
                              reader.evaluated.begin()->first),
                  export_cure);
  read_outputs(reader, scope, model);
  refuse_wrong_states(reader);
  make_functional(graph);
  // Before the first operator and behind the last one nothing is parted.
  std::erase_if(graph.markers, [&](OperatorId next) {
    return next == 0 || next == static_cast<OperatorId>(graph.operators.size());
  });
}

}  // namespace
}  // namespace pt2

Graph read_pt2(const std::string& path) {
  Graph graph;
  graph.path = path;
  try {
    pt2::read_into(graph, path);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();  // `[json.exception.…] type must be …`
    throw InputError(path,
                     fmt::format("is not what torch.export writes: in its JSON {}",
                                 what.substr(what.find("] ") + 2)),
                     pt2::export_cure);
  } catch (const std::bad_alloc&) {
    throw InputError(path, "does not fit in memory", pt2::export_cure);
  }
  graph.sha256 = sha256_of_file(path);
  return graph;
}

}  // namespace penstock
