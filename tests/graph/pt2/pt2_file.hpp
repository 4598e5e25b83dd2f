// Writes `.pt2` files by hand, member by member, to read what no exporter would write.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/file.hpp"
#include "graph/pt2/pt2.hpp"

namespace penstock::testing {

using Json = nlohmann::json;

/// A path of its own in the tests' temporary folder, removed at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    static int count = 0;
    path = (std::filesystem::path(::testing::TempDir()) /
            ("penstock-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".pt2"))
               .string();
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path;
};

using Members = std::map<std::string, std::string>;

inline void write_zip(const std::string& path, const Members& members, int method = ZIP_CM_STORE) {
  std::filesystem::remove(path);
  int error = 0;
  struct zip* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!archive) throw std::runtime_error("zip_open " + path);
  for (const auto& [name, content] : members) {
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0 || zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method, 0))
      throw std::runtime_error("zip_file_add " + name);
  }
  if (zip_close(archive) != 0) throw std::runtime_error("zip_close " + path);
}

inline Json tensor_meta(const Json& sizes, const Json& strides, int dtype = 7, int offset = 0) {
  const auto ints = [](const Json& list) {
    Json result = Json::array();
    for (const Json& entry : list)
      result.push_back(entry.is_number() ? Json{{"as_int", entry}} : entry);
    return result;
  };
  return {{"dtype", dtype},
          {"sizes", ints(sizes)},
          {"strides", ints(strides)},
          {"storage_offset", {{"as_int", offset}}},
          {"requires_grad", true},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"layout", 7}};
}

inline Json batch_size() {
  return {{"as_expr",
           {{"expr_str", "Symbol('s0', positive=True, integer=True)"}, {"hint", {{"as_int", 4}}}}}};
}
inline Json named(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
inline Json argument_json(const std::string& name, Json value) {
  return {{"name", name}, {"arg", std::move(value)}, {"kind", 1}};
}
inline Json node(const std::string& target, Json inputs, Json outputs) {
  return {{"target", target},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"metadata", {{"nn_module_stack", "L__self__,,M;L__self__body@1,body,L"}}}};
}

/// y = relu(x) * w, with x [batch, 3] and w [3]; tests change what they are about.
class Pt2 {
 public:
  Pt2() {
    Json& graph = model["graph_module"]["graph"];
    graph["inputs"] = {named("p_w"), named("x")};
    graph["outputs"] = {named("mul")};
    graph["nodes"] = {
        node("torch.ops.aten.relu.default", {argument_json("self", named("x"))}, {named("relu")}),
        node("torch.ops.aten.mul.Tensor",
             {argument_json("self", named("relu")), argument_json("other", named("p_w"))},
             {named("mul")})};
    for (const char* name : {"x", "relu", "mul"})
      graph["tensor_values"][name] = tensor_meta({batch_size(), 3}, {3, 1});
    graph["tensor_values"]["p_w"] = tensor_meta({3}, {1});
    graph["sym_int_values"] = graph["sym_float_values"] = graph["sym_bool_values"] = Json::object();
    model["schema_version"] = {{"major", 8}, {"minor", 17}};
    model["range_constraints"]["s0"] = {{"min_val", 2}, {"max_val", 64}};
    Json& signature = model["graph_module"]["signature"];
    signature["input_specs"] = {
        {{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "w"}}}},
        {{"user_input", {{"arg", named("x")}}}}};
    signature["output_specs"] = {{{"user_output", {{"arg", named("mul")}}}}};
    add_weight("w", "weight_0", tensor_meta({3}, {1}), std::string(12, '\1'));
  }

  void add_weight(const std::string& name, const std::string& file, Json meta,
                  std::string storage) {
    weights["config"][name] = {
        {"path_name", file}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", meta}};
    members["m/data/weights/" + file] = std::move(storage);
  }
  Json& graph() { return model["graph_module"]["graph"]; }
  Json& signature() { return model["graph_module"]["signature"]; }
  /// The arguments of a last operator `aten::custom` that yields the output instead of `mul`.
  void add_operator(const std::string& target, Json inputs) {
    graph()["nodes"].push_back(node(target, std::move(inputs), {named("extra")}));
    graph()["tensor_values"]["extra"] = tensor_meta({batch_size(), 3}, {3, 1});
  }

  void write(const std::string& path) const {
    Members all = members;
    all["m/models/model.json"] = model.dump();
    all["m/data/weights/model_weights_config.json"] = weights.dump();
    all["m/byteorder"] = "little";
    write_zip(path, all);
  }
  Graph read() const {
    const TemporaryFile file;
    write(file.path);
    return read_pt2(file.path);
  }

  Json model, weights;
  Members members;
};

}  // namespace penstock::testing
