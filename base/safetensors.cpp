#include "base/safetensors.hpp"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/output_file.hpp"

namespace penstock {

static_assert(std::endian::native == std::endian::little, ".safetensors is little-endian");

namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr const char* kCure = "Write the file again, for example with safetensors.torch.save_file.";

std::string read_header(const InputFile& file) {
  uint64_t length = 0;
  if (file.size_bytes() < 8) throw InputError(file.path(), "too short for .safetensors", kCure);
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const auto rest = static_cast<uint64_t>(file.size_bytes() - 8);
  if (length > kMaxHeader || length > rest) {
    throw InputError(file.path(),
                     fmt::format("not a .safetensors file, or truncated: a header of {} bytes in a "
                                 "file of {}",
                                 length, file.size_bytes()),
                     kCure);
  }
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Bytes of `shape` elements, or -1 if they do not fit an int64.
int64_t shape_bytes(const std::vector<int64_t>& shape, int64_t element) {
  int64_t bytes = element;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

std::string listed(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

SafetensorsEntry parse_entry(const Json& json, const std::string& place, int64_t data,
                             int64_t file_bytes) {
  SafetensorsEntry entry;
  std::vector<int64_t> offsets;
  std::string dtype;
  try {
    dtype = json.at("dtype").get<std::string>();
    entry.shape = json.at("shape").get<std::vector<int64_t>>();
    offsets = json.at("data_offsets").get<std::vector<int64_t>>();
  } catch (const Json::exception&) {
    throw InputError(place, "broken header: no dtype, shape and data_offsets", kCure);
  }
  entry.dtype = from_safetensors_name(dtype);
  if (entry.dtype == DType::unknown) {
    throw InputError(place, fmt::format("unknown dtype {}", dtype), kCure);
  }
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] ||
      offsets[1] > file_bytes - data) {
    throw InputError(
        place,
        fmt::format("its bytes {} lie outside the file of {} bytes", listed(offsets), file_bytes),
        kCure);
  }
  if (shape_bytes(entry.shape, size_bytes(entry.dtype)) != offsets[1] - offsets[0]) {
    throw InputError(place,
                     fmt::format("shape {} of {} does not take {} bytes", listed(entry.shape),
                                 dtype, offsets[1] - offsets[0]),
                     kCure);
  }
  entry.begin = data + offsets[0];
  entry.end = data + offsets[1];
  return entry;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string text = read_header(file_);
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) throw InputError(file_.path(), "its header is not JSON", kCure);
  const int64_t data = 8 + static_cast<int64_t>(text.size());
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      if (!json.is_object()) continue;
      for (const auto& [key, value] : json.items()) {
        if (value.is_string()) metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    entries_[name] = parse_entry(json, file_.path() + ": " + name, data, file_.size_bytes());
  }
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [key, unused] : entries_) names.push_back(key);
  throw InputError(path(),
                   fmt::format("has no tensor {}; it has: {}", name, fmt::join(names, ", ")),
                   did_you_mean(name, names));
}

void SafetensorsFile::read(const SafetensorsEntry& entry, int64_t offset,
                           std::span<std::byte> destination) const {
  file_.read(entry.begin + offset, destination);
}

void require_storable(const std::string& place, const std::string& tensor, DType dtype) {
  if (!safetensors_name(dtype).empty()) return;
  throw InputError(
      place, fmt::format("{} is {}, which .safetensors does not have", tensor, name(dtype)),
      "Hold it in another type in the model: complex numbers as pairs of real ones, with "
      "torch.view_as_complex where they are used.");
}

namespace {

template <typename Tensor>
std::vector<SafetensorsPlace> places(const std::vector<Tensor>& tensors) {
  std::vector<SafetensorsPlace> places;
  places.reserve(tensors.size());
  for (const Tensor& tensor : tensors) places.push_back({tensor.name, tensor.dtype, tensor.shape});
  return places;
}

}  // namespace

SafetensorsHead safetensors_head(const std::string& place,
                                 const std::vector<SafetensorsPlace>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  SafetensorsHead head;
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& [tensor, dtype, shape] : tensors) {
    require_storable(place, tensor, dtype);
    const int64_t end = offset + shape_bytes(shape, size_bytes(dtype));
    header[tensor] = {
        {"dtype", safetensors_name(dtype)}, {"shape", shape}, {"data_offsets", {offset, end}}};
    head.begins.push_back(std::exchange(offset, end));
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned to 8 bytes
  const uint64_t length = text.size();
  head.bytes.assign(reinterpret_cast<const char*>(&length), sizeof length);
  head.bytes += text;
  for (int64_t& begin : head.begins) begin += static_cast<int64_t>(head.bytes.size());
  return head;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<SafetensorsPlace>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  SafetensorsHead head = safetensors_head(path.string(), tensors, metadata);
  file_.write(head.bytes);
  at_ = static_cast<int64_t>(head.bytes.size());
  begins_ = std::move(head.begins);
}

void SafetensorsWriter::write(size_t tensor, int64_t offset, std::span<const std::byte> bytes) {
  const int64_t begin = begins_.at(tensor) + offset;
  if (begin != at_) file_.seek(begin);
  file_.write(bytes);
  at_ = begin + static_cast<int64_t>(bytes.size());
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter file(path, places(tensors), metadata);
  for (size_t i = 0; i < tensors.size(); ++i) file.write(i, 0, tensors[i].bytes);
  file.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<SafetensorsSource>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter file(path, places(tensors), metadata);
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bytes.resize(static_cast<size_t>(shape_bytes(tensors[i].shape, size_bytes(tensors[i].dtype))));
    tensors[i].read(bytes);
    file.write(i, 0, bytes);
  }
  file.commit();
}

}  // namespace penstock
