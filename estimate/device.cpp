#include "estimate/device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "base/yaml.hpp"
#include "pipeline/profile/fit.hpp"

namespace penstock {

namespace {

constexpr std::array<std::string_view, operator_classes> class_names = {
    "gemm",        "attention", "convolution", "normalisation",
    "elementwise", "reduction", "lookup",      "optimizer"};

constexpr std::array peak_types = {DType::float64, DType::float32, DType::float16, DType::bfloat16};

/// Nothing faster is built, and a factor of that size is a slip of the pen.
constexpr double max_flops = 1e20, max_efficiency = 100;

double above_zero(double value, const std::string& place, const char* cure) {
  if (value > 0) return value;
  throw InputError(place, "is 0", cure);
}

std::string device_kind(YamlMap& map) {
  std::string kind = map.text("kind");
  if (kind == "cpu" || kind == "cuda") return kind;
  throw InputError(map.place("kind"), fmt::format("there is no kind of device `{}`", kind),
                   "Write cpu or cuda.");
}

/// `{float32: 67e12, bfloat16: 989e12}`.
std::map<DType, double> read_peaks(YamlMap map) {
  std::map<DType, double> peaks;
  for (const DType dtype : peak_types) {
    const std::string key(name(dtype));
    if (!map.has(key)) continue;
    peaks[dtype] = above_zero(map.number(key, 0, max_flops), map.place(key),
                              "Give FLOPs per second, or leave the type out.");
  }
  map.finish();
  return peaks;
}

PerClass read_efficiency(YamlMap map) {
  PerClass efficiency{};
  for (size_t kind = 0; kind < class_names.size(); ++kind) {
    const std::string key(class_names[kind]);
    efficiency[kind] = above_zero(map.number(key, 0, max_efficiency), map.place(key),
                                  "Give the share of the peak that is reached, as in 0.7.");
  }
  map.finish();
  return efficiency;
}

/// Measured by the user: at least two sizes, from which latency and bandwidth are fitted.
void fit_samples(YamlMap& map, LinkCost& link) {
  for (YamlMap sample : map.maps("samples")) {
    link.samples.emplace_back(
        parse_bytes(sample.text("bytes"), sample.place("bytes")),
        above_zero(parse_seconds(sample.text("seconds"), sample.place("seconds")),
                   sample.place("seconds"), "Give what was measured, as in 12us."));
    sample.finish();
  }
  const auto size = [](const auto& sample) { return sample.first; };
  const auto [smallest, largest] = std::ranges::minmax_element(link.samples, {}, size);
  if (link.samples.empty() || smallest->first == largest->first) {
    throw InputError(map.place("samples"), "are of fewer than two sizes",
                     "Measure a small and a large message at least.");
  }
  const LinkLine line = fit_link_line(link.samples);
  link.latency_s = line.latency_s;
  link.bandwidth = line.bandwidth;
  link.residual = line.residual;
}

LinkCost read_link(YamlMap map) {
  LinkCost link;
  link.kind = map.text("kind");
  if (map.has("samples")) {
    fit_samples(map, link);
  } else {
    link.latency_s = parse_seconds(map.text("latency"), map.place("latency"));
    link.bandwidth =
        above_zero(parse_bytes_per_second(map.text("bandwidth"), map.place("bandwidth")),
                   map.place("bandwidth"), "Give a rate above 0, as in 450GB/s.");
  }
  map.finish();
  return link;
}

int64_t device_bytes(YamlMap& map) {
  const std::string text = map.text("memory");
  const int64_t bytes = parse_bytes(text, map.place("memory"));
  if (bytes > 0) return bytes;
  throw InputError(map.place("memory"), "no memory at all: " + text,
                   "Give what the device has, as in 80GB.");
}

double duration(YamlMap& map, const std::string& key) {
  return map.has(key) ? parse_seconds(map.text(key), map.place(key)) : 0;
}

/// Do these operators run on the units for matrix products?
bool multiplies_matrices(OperatorClass kind) {
  return kind == OperatorClass::gemm || kind == OperatorClass::attention ||
         kind == OperatorClass::convolution;
}

}  // namespace

std::string_view name(OperatorClass kind) { return class_names[static_cast<size_t>(kind)]; }

double DeviceSpec::peak(OperatorClass of, DType dtype) const {
  const bool matrix = multiplies_matrices(of);
  const auto& peaks = matrix ? matrix_flops : vector_flops;
  const auto found = peaks.find(dtype);
  if (found != peaks.end()) return found->second;
  if (!matrix || !is_floating(dtype)) return vector_flops.at(DType::float32);
  throw InputError(path,
                   fmt::format("says nothing about matrix products of {}", penstock::name(dtype)),
                   fmt::format("Add `{}` under `matrix`, or export the model with another --dtype.",
                               penstock::name(dtype)));
}

DeviceSpec read_device_spec(const std::filesystem::path& path) {
  return parse_device_spec(read_file(path), path);
}

DeviceSpec parse_device_spec(const std::string& text, const std::filesystem::path& path) {
  YamlMap map = parse_yaml(text, path, "device");
  DeviceSpec spec;
  spec.path = path.string();
  spec.name = map.text("name");
  spec.kind = device_kind(map);
  spec.memory_bytes = device_bytes(map);
  if (map.has("reserved"))
    spec.reserved_bytes = parse_bytes(map.text("reserved"), map.place("reserved"));
  spec.bandwidth =
      above_zero(parse_bytes_per_second(map.text("bandwidth"), map.place("bandwidth")),
                 map.place("bandwidth"), "Give the bandwidth of its memory, as in 3.35TB/s.");
  spec.matrix_flops = read_peaks(map.map("matrix"));
  spec.vector_flops = read_peaks(map.map("vector"));
  if (!spec.vector_flops.contains(DType::float32)) {
    throw InputError(map.place("vector"), "has no float32",
                     "Add it: the types that are not listed compute in it.");
  }
  spec.launch_s = duration(map, "launch");
  spec.action_s = duration(map, "action");
  spec.efficiency = read_efficiency(map.map("efficiency"));
  if (map.has("links"))
    for (YamlMap& link : map.maps("links")) spec.links.push_back(read_link(std::move(link)));
  map.finish();
  return spec;
}

}  // namespace penstock
