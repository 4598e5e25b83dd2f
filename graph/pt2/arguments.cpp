// Arguments: the exporter's tagged unions to ArgumentValue.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

template <typename Element>
std::vector<Element> list(const Json& values) {
  return values.get<std::vector<Element>>();
}

ValueId tensor(ModelReader& reader, const Scope& scope, const Json& named) {
  const auto& name = named.at("name").get_ref<const std::string&>();
  const auto found = scope.tensors.find(name);
  if (found == scope.tensors.end())
    reader.refuse(fmt::format("the value '{}' is read before it is computed", name));
  return found->second;
}

TensorList tensors(ModelReader& reader, const Scope& scope, const Json& values) {
  TensorList result;
  for (const Json& entry : values) {
    const Json* named = entry.contains("name") ? &entry : nullptr;
    if (const auto inner = entry.find("as_tensor"); inner != entry.end()) named = &*inner;
    result.values.push_back(named ? std::optional(tensor(reader, scope, *named)) : std::nullopt);
  }
  return result;
}

Expression size(ModelReader& reader, Scope& scope, const Json& entry) {
  const auto [tag, value] = member(entry);
  return tag == "as_name" ? size_named(reader, scope, value->get<std::string>())
                          : read_size(reader, entry);
}

std::vector<Expression> sizes(ModelReader& reader, Scope& scope, const Json& values) {
  std::vector<Expression> result;
  for (const Json& entry : values) result.push_back(size(reader, scope, entry));
  return result;
}

/// A size that does not depend on the batch is a plain number.
ArgumentValue plain(const Expression& expression) {
  if (expression.depends_on_batch()) return expression;
  const Expression::Number value = expression.evaluate(1);
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::get<double>(value);
}

/// True or false; the export's own comparison of sizes would have to be repeated for every batch.
bool truth(ModelReader& reader, const Json& value) {
  const auto [tag, content] = member(value);
  if (tag == "as_bool") return content->get<bool>();
  reader.refuse(fmt::format("{}a truth value ('{}') depends on the size of the batch",
                            reader.at_work(), content->dump()),
                "Let the model take the same branch for every batch, or export it with --static.");
}

std::vector<Expression> integers(const Json& values) {
  std::vector<int64_t> plain_values;
  for (const Json& entry : values) plain_values.push_back(whole(entry));
  return {plain_values.begin(), plain_values.end()};
}

/// Numbers of the schema's enumerations; an unknown one would be run as something else.
int enumerated(ModelReader& reader, const Json& value, int max, const char* kind) {
  const int number = small(value);
  if (number < 0 || number > max) reader.refuse(fmt::format("{} {} is not known", kind, number));
  return number;
}

DType element_type(ModelReader& reader, const Json& value) {
  const auto dtype = static_cast<DType>(small(value));
  if (size_bytes(dtype) == 0)
    reader.refuse(fmt::format("element type {} is not known", small(value)));
  return dtype;
}

std::vector<double> reals(const Json& values) {
  std::vector<double> result;
  for (const Json& value : values) result.push_back(real(value));
  return result;
}

using Read = ArgumentValue (*)(ModelReader&, Scope&, const Json&);
struct ArgumentReader {
  std::string_view tag;
  Read read;
};

/// One line for each member of the schema's union that Penstock takes.
const ArgumentReader readers[] = {
    {"as_none", [](ModelReader&, Scope&, const Json&) -> ArgumentValue { return None{}; }},
    {"as_tensor",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue {
       return TensorRef{tensor(r, s, v)};
     }},
    {"as_optional_tensor",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue {
       if (v.contains("as_none")) return None{};
       return TensorRef{tensor(r, s, v.at("as_tensor"))};
     }},
    {"as_tensors",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue { return tensors(r, s, v); }},
    {"as_optional_tensors",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue { return tensors(r, s, v); }},
    {"as_bool", [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return v.get<bool>(); }},
    {"as_int", [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return whole(v); }},
    {"as_float", [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return real(v); }},
    {"as_complex",
     [](ModelReader&, Scope&, const Json& v) -> ArgumentValue {
       return std::complex<double>(real(v.at("real")), real(v.at("imag")));
     }},
    {"as_sym_int", [](ModelReader& r, Scope& s, const Json& v) { return plain(size(r, s, v)); }},
    {"as_sym_float", [](ModelReader& r, Scope& s, const Json& v) { return plain(size(r, s, v)); }},
    {"as_sym_bool",
     [](ModelReader& r, Scope&, const Json& v) -> ArgumentValue { return truth(r, v); }},
    {"as_sym_bools",
     [](ModelReader& r, Scope&, const Json& v) -> ArgumentValue {
       std::vector<bool> result;
       for (const Json& entry : v) result.push_back(truth(r, entry));
       return result;
     }},
    {"as_string",
     [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return v.get<std::string>(); }},
    {"as_ints", [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return integers(v); }},
    {"as_sym_ints",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue { return sizes(r, s, v); }},
    {"as_floats", [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return reals(v); }},
    {"as_sym_floats",
     [](ModelReader& r, Scope& s, const Json& v) -> ArgumentValue { return sizes(r, s, v); }},
    {"as_bools",
     [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return list<bool>(v); }},
    {"as_strings",
     [](ModelReader&, Scope&, const Json& v) -> ArgumentValue { return list<std::string>(v); }},
    {"as_scalar_type",
     [](ModelReader& r, Scope&, const Json& v) -> ArgumentValue { return element_type(r, v); }},
    {"as_memory_format",
     [](ModelReader& r, Scope&, const Json& v) -> ArgumentValue {
       return MemoryFormat{enumerated(r, v, 4, "memory format")};
     }},
    {"as_layout",
     [](ModelReader& r, Scope&, const Json& v) -> ArgumentValue {
       return Layout{enumerated(r, v, 7, "layout")};
     }},
    {"as_device",
     [](ModelReader&, Scope&, const Json& v) -> ArgumentValue {
       return Device{v.at("type").get<std::string>()};
     }},
};

}  // namespace

double real(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  return text == "Infinity" ? INFINITY : text == "-Infinity" ? -INFINITY : NAN;
}

std::string node_name(const Json& node) {
  const auto written = node.find("name");
  if (written != node.end() && written->is_string()) return written->get<std::string>();
  for (const Json& output : node.at("outputs")) {
    const auto [tag, value] = member(output);
    if (tag == "as_tensor") return value->at("name").get<std::string>();
    if (tag == "as_tensors" && !value->empty()) return value->at(0).at("name").get<std::string>();
    if (tag == "as_sym_int" && value->contains("as_name"))
      return value->at("as_name").get<std::string>();
  }
  return node.value("target", std::string("unnamed"));
}

std::pair<std::string, const Json*> member(const Json& tagged) {
  const auto first = tagged.get_ref<const Json::object_t&>().begin();
  if (tagged.empty()) return {"nothing", &tagged};
  return {first->first, &first->second};
}

ArgumentValue read_argument(ModelReader& reader, Scope& scope, const Json& argument) {
  const auto [tag, value] = member(argument);
  for (const ArgumentReader& kind : readers)
    if (kind.tag == tag) return kind.read(reader, scope, *value);
  reader.refuse(fmt::format("{}an argument of kind '{}' is not taken", reader.at_work(), tag),
                "No operator of PyTorch's own has one: Penstock takes tensors, numbers, sizes, "
                "strings and lists of them. tools/export_model.py --decompose replaces custom "
                "operators.");
}

}  // namespace penstock::pt2
