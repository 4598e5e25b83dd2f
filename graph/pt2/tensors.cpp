// The weights' and constants' configuration: where each tensor lies in which storage, and which
// names belong to one tensor. A storage without bytes was exported on the meta device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

std::vector<int64_t> plain_integers(const Json& list) {
  std::vector<int64_t> values;
  for (const Json& entry : list) values.push_back(whole(entry.at("as_int")));
  return values;
}

/// Elements of the storage that the tensor reaches; refuses negative and overflowing ones.
int64_t extent(const StoredTensor& tensor, const ModelReader& reader) {
  int64_t last = tensor.storage_offset;
  bool sound = last >= 0 && tensor.sizes.size() == tensor.strides.size();
  for (size_t i = 0; sound && i < tensor.sizes.size(); ++i) {
    int64_t step = 0;
    sound = tensor.sizes[i] >= 0 && tensor.strides[i] >= 0 &&
            !__builtin_mul_overflow(std::max<int64_t>(tensor.sizes[i] - 1, 0), tensor.strides[i],
                                    &step) &&
            !__builtin_add_overflow(last, step, &last);
  }
  if (!sound || last > INT64_MAX / 32)
    reader.refuse(fmt::format("tensor '{}' has impossible sizes or strides", tensor.name));
  return tensor.elements() == 0 ? 0 : last + 1;
}

StoredTensor describe(const std::string& name, const Json& payload, const ModelReader& reader) {
  const Json& meta = payload.at("tensor_meta");
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = static_cast<DType>(small(meta.at("dtype")));
  tensor.sizes = plain_integers(meta.at("sizes"));
  tensor.strides = plain_integers(meta.at("strides"));
  tensor.storage_offset = whole(meta.at("storage_offset").at("as_int"));
  tensor.requires_grad = payload.at("is_param").get<bool>() && meta.at("requires_grad").get<bool>();
  if (size_bytes(tensor.dtype) == 0)
    reader.refuse(fmt::format("tensor '{}' has an element type that Penstock does not know", name));
  if (small(meta.at("layout")) != 7)
    reader.refuse(fmt::format("tensor '{}' is sparse", name), "Make it dense before the export.");
  return tensor;
}

/// Fills tensor.file unless the storage is empty, as the meta device leaves it.
void locate(StoredTensor& tensor, const std::string& member, const Zip& zip,
            const ModelReader& reader) {
  const int64_t needed = extent(tensor, reader) * size_bytes(tensor.dtype),
                there = zip.size(member);
  if (there == 0 && needed > 0) return;
  if (there < needed)
    reader.refuse(fmt::format("tensor '{}' needs {} bytes, its storage '{}' has {}", tensor.name,
                              needed, member, there));
  tensor.file = member;
}

void add_payloads(Payloads& payloads, const Zip& zip, const ModelReader& reader,
                  const std::string& folder, const std::string& config) {
  const std::string member = zip.full(folder + config);
  if (!zip.has(member)) return;
  const auto [parsed, names] = parse_config(zip.read(member));
  const Json& entries = parsed.at("config");
  for (const std::string& name : names) {  // in the file's order, that of named_parameters()
    const Json& payload = entries.at(name);
    if (payload.at("use_pickle").get<bool>()) continue;  // refused where the graph asks for it
    StoredTensor tensor = describe(name, payload, reader);
    locate(tensor, zip.full(folder + payload.at("path_name").get<std::string>()), zip, reader);
    payloads.tensors.push_back(std::move(tensor));
  }
}

/// Equal for tensors that are the same elements of the same storage. Tensors without bytes (meta
/// device, or empty) share one storage without being tied, so only their names tell them apart.
std::string location(const StoredTensor& tensor) {
  if (tensor.file.empty() || tensor.elements() == 0) return tensor.name;
  return fmt::format("{}\n{} {} {} {}", tensor.file, static_cast<int>(tensor.dtype),
                     tensor.storage_offset, fmt::join(tensor.sizes, ","),
                     fmt::join(tensor.strides, ","));
}

}  // namespace

Payloads read_payloads(const Zip& zip, const ModelReader& reader) {
  Payloads payloads;
  add_payloads(payloads, zip, reader, "data/weights/", "model_weights_config.json");
  add_payloads(payloads, zip, reader, "data/constants/", "model_constants_config.json");
  return payloads;
}

void tie(Payloads& payloads, const std::vector<std::vector<std::string>>& named) {
  std::map<std::string, std::string> representative;
  for (const auto& group : named)
    for (const std::string& name : group) representative[name] = group.front();
  std::map<std::string, size_t> group_at;
  for (size_t index = 0; index < payloads.tensors.size(); ++index) {
    const StoredTensor& tensor = payloads.tensors[index];
    const auto told = representative.find(tensor.name);
    const std::string key = told == representative.end() ? location(tensor) : "\n" + told->second;
    const auto [at, first] = group_at.emplace(key, payloads.groups.size());
    if (first) payloads.groups.emplace_back();
    payloads.groups[at->second].push_back(index);
    payloads.group_of[tensor.name] = at->second;
  }
}

int find_tensor(ModelReader& reader, const Payloads& payloads, const std::string& name,
                StoredTensor::Kind kind) {
  const auto found = reader.tensors.find(name);
  if (found != reader.tensors.end()) return found->second;
  const auto group = payloads.group_of.find(name);
  if (group == payloads.group_of.end())
    reader.refuse(fmt::format("has no values for '{}' that Penstock can read", name),
                  "Only plain dense tensors can be parameters and buffers.");
  const auto& members = payloads.groups[group->second];
  const int index = static_cast<int>(reader.graph.tensors.size());
  StoredTensor tensor = payloads.tensors[members.front()];
  tensor.kind = kind;
  for (const size_t member : members) {
    const std::string& alias = payloads.tensors[member].name;
    if (alias != tensor.name) tensor.aliases.push_back(alias);
    reader.tensors[alias] = index;
  }
  reader.graph.tensors.push_back(std::move(tensor));
  return index;
}

}  // namespace penstock::pt2
