#include "pipeline/layers/layer_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "base/yaml.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

namespace {

constexpr int64_t max_layer_bytes = int64_t{1} << 40;

double seconds(YamlMap& map, const std::string& key) {
  return parse_seconds(map.text(key), map.place(key));
}

int64_t bytes(YamlMap& map, const std::string& key, int64_t otherwise = 0) {
  if (!map.has(key)) return otherwise;
  const int64_t bytes = parse_bytes(map.text(key), map.place(key));
  if (bytes <= max_layer_bytes) return bytes;
  throw InputError(map.place(key),
                   fmt::format("{} are more than any device has", format_bytes(bytes)),
                   "Correct the number or its unit.");
}

std::string parse_name(YamlMap& map) {
  std::string name = map.text("name");
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  const bool plain = !name.empty() && name.find_first_not_of(allowed) == name.npos &&
                     name.front() != '.' && name.back() != '.';
  if (plain) return name;
  throw InputError(map.place("name"), fmt::format("`{}` is no name", name),
                   "Use letters, digits, `_`, `-`, and dots between them.");
}

RecomputeChoice parse_choice(YamlMap& map, const Layer& layer) {
  RecomputeChoice choice{.name = parse_name(map), .time_s = seconds(map, "time")};
  const int64_t saved = bytes(map, "saved");
  if (saved >= layer.saved_bytes) {
    throw InputError(map.place("saved"),
                     fmt::format("{} is no less than the layer saves without, {}",
                                 format_bytes(saved), format_bytes(layer.saved_bytes)),
                     "Leave the choice out, or correct what is saved.");
  }
  choice.freed_bytes = layer.saved_bytes - saved;
  choice.working_bytes = bytes(map, "working", choice.freed_bytes);
  map.finish();
  return choice;
}

void parse_recompute(YamlMap& map, Layer& layer) {
  std::set<std::string> names;
  for (YamlMap& entry : map.maps("recompute")) {
    layer.recompute.push_back(parse_choice(entry, layer));
    if (names.insert(layer.recompute.back().name).second) continue;
    throw InputError(entry.place("name"),
                     fmt::format("`{}` is there twice", layer.recompute.back().name),
                     "Give each choice a name of its own.");
  }
}

void parse_backward(YamlMap& map, Layer& layer) {
  layer.has_parts = map.has("backward_input") || map.has("backward_weight");
  if (!layer.has_parts) {
    layer.backward_s = seconds(map, "backward");
    return;
  }
  layer.backward_input_s = seconds(map, "backward_input");
  layer.backward_weight_s = seconds(map, "backward_weight");
  layer.backward_s = map.has("backward") ? seconds(map, "backward")
                                         : layer.backward_input_s + layer.backward_weight_s;
}

void check_gradient(const YamlMap& map, const Layer& layer) {
  if (!layer.gradient_bytes || 2 * *layer.gradient_bytes <= layer.static_bytes) return;
  throw InputError(
      map.place("gradient"),
      fmt::format("{} of gradients, but only {} are static", format_bytes(*layer.gradient_bytes),
                  format_bytes(layer.static_bytes)),
      "`static` holds parameters, gradients and what the optimizer keeps: at least "
      "twice the gradients.");
}

/// One row: a layer, or `count` equal ones.
void parse_row(YamlMap map, LayerCosts& costs) {
  Layer layer{.name = parse_name(map), .forward_s = seconds(map, "forward")};
  parse_backward(map, layer);
  layer.static_bytes = bytes(map, "static");
  layer.saved_bytes = bytes(map, "saved");
  layer.output_bytes = bytes(map, "output");
  layer.output_bytes -= layer.output_bytes % costs.microbatch;  // as large for each sample
  if (map.has("gradient")) layer.gradient_bytes = bytes(map, "gradient");
  check_gradient(map, layer);
  if (map.has("recompute")) parse_recompute(map, layer);
  const bool several = map.has("count");
  const int64_t count = map.integer("count", 1, max_layers, 1);
  if (static_cast<int64_t>(costs.layers.size()) + count > max_layers) {
    throw InputError(map.place("name"), fmt::format("more than {} layers", max_layers),
                     "Join neighbours into one layer: no plan divides so finely.");
  }
  map.finish();
  const std::string name = layer.name;
  for (int64_t i = 0; i < count; ++i) {
    layer.name = several ? fmt::format("{}.{}", name, i) : name;
    costs.layers.push_back(layer);
  }
}

void check_names(const YamlMap& map, const LayerCosts& costs) {
  std::set<std::string_view> names;
  for (const Layer& layer : costs.layers) {
    if (names.insert(layer.name).second) continue;
    throw InputError(map.place("layers"), fmt::format("`{}` is there twice", layer.name),
                     "Give each layer a name of its own, or equal ones a `count`.");
  }
}

/// All layers have parts of the backward, or none has.
void check_parts(const YamlMap& map, const LayerCosts& costs) {
  const auto other =
      std::ranges::find(costs.layers, !costs.layers.front().has_parts, &Layer::has_parts);
  if (other == costs.layers.end()) return;
  throw InputError(
      map.place("layers"),
      fmt::format("`{}` gives its backward {}, `{}` {}", other->name,
                  other->has_parts ? "in two parts" : "as a whole", costs.layers.front().name,
                  other->has_parts ? "as a whole" : "in two parts"),
      "Give `backward_input` and `backward_weight` of all layers, or of none.");
}

void check_times(const YamlMap& map, const LayerCosts& costs) {
  if (std::ranges::any_of(costs.layers, [](const Layer& layer) { return layer.forward_s > 0; }))
    return;
  throw InputError(map.place("layers"), "no forward takes time", "Give what was measured.");
}

LayerCosts parse_size(YamlMap& map) {
  LayerCosts costs{.microbatch = map.integer("microbatch", 1, max_samples)};
  for (const YamlMap& row : map.maps("layers")) parse_row(row, costs);
  if (costs.layers.empty()) {
    throw InputError(map.place("layers"), "the list is empty",
                     "Give each layer as in `{name: head, forward: 1ms, backward: 2ms}`.");
  }
  costs.layers.back().output_bytes = 0;  // goes nowhere
  check_names(map, costs);
  check_parts(map, costs);
  check_times(map, costs);
  return costs;
}

/// The same model at another microbatch size.
void check_alike(const YamlMap& map, const LayerCosts& one, const LayerCosts& other) {
  const auto refuse = [&](const std::string& problem, const char* cure) {
    throw InputError(map.place("layers"), problem, cure);
  };
  if (one.layers.size() != other.layers.size())
    refuse(fmt::format("{} layers, but {} at microbatch {}", other.layers.size(), one.layers.size(),
                       one.microbatch),
           "Give the same layers at each size.");
  for (size_t i = 0; i < one.layers.size(); ++i) {
    const Layer &a = one.layers[i], &b = other.layers[i];
    if (a.name != b.name)
      refuse(fmt::format("layer {} is `{}`, but `{}` at microbatch {}", i, b.name, a.name,
                         one.microbatch),
             "Give the same layers at each size.");
    if (a.static_bytes != b.static_bytes || a.gradient_bytes != b.gradient_bytes)
      refuse(fmt::format("`{}` holds other static bytes or gradients than at microbatch {}", a.name,
                         one.microbatch),
             "They do not depend on the microbatch.");
    if (a.output_bytes / one.microbatch != b.output_bytes / other.microbatch)
      refuse(fmt::format("the output of `{}` is {} for {} and {} for {}", a.name,
                         format_bytes(a.output_bytes), format_number(one.microbatch, "sample"),
                         format_bytes(b.output_bytes), format_number(other.microbatch, "sample")),
             "An output is as large for each sample.");
  }
}

std::vector<LayerCosts> parse_sizes(YamlMap& map) {
  if (!map.has("sizes")) return {parse_size(map)};
  std::vector<LayerCosts> sizes;
  for (YamlMap& entry : map.maps("sizes")) {
    sizes.push_back(parse_size(entry));
    entry.finish();
    check_alike(entry, sizes.front(), sizes.back());
    if (std::ranges::count(sizes, sizes.back().microbatch, &LayerCosts::microbatch) == 1) continue;
    throw InputError(entry.place("microbatch"),
                     fmt::format("{} is there twice", sizes.back().microbatch),
                     "Give each size once.");
  }
  if (sizes.empty())
    throw InputError(map.place("sizes"), "the list is empty",
                     "Give `microbatch` and `layers` of each size.");
  std::ranges::sort(sizes, {}, &LayerCosts::microbatch);
  return sizes;
}

/// The digits behind the last dot, where `path` has such; -1 otherwise.
int64_t number_of(const std::string& path, std::string& list) {
  const size_t dot = path.rfind('.');
  const bool numbered = dot != path.npos && dot + 1 < path.size() && path.size() - dot < 8 &&
                        path.find_first_not_of("0123456789", dot + 1) == path.npos;
  if (!numbered) return -1;
  list = path.substr(0, dot);
  return std::stoll(path.substr(dot + 1));
}

/// How many layers from `first` on are equal, and numbered from 0.
size_t run_length(const std::vector<Layer>& layers, size_t first) {
  std::string list, other;
  if (number_of(layers[first].name, list) != 0) return 1;
  size_t count = 1;
  for (; first + count < layers.size(); ++count) {
    Layer next = layers[first + count];
    if (number_of(next.name, other) != static_cast<int64_t>(count) || other != list) break;
    next.name = layers[first].name;
    if (next != layers[first]) break;
  }
  return count;
}

std::string row_text(const LayerRow& row) {
  const Layer& layer = *row.layer;
  std::string text = fmt::format("name: \"{}\"", row.name);
  if (row.name != layer.name) text += fmt::format(", count: {}", row.count);
  text += fmt::format(", forward: {}s, backward: {}s", layer.forward_s, layer.backward_s);
  if (layer.has_parts)
    text += fmt::format(", backward_input: {}s, backward_weight: {}s", layer.backward_input_s,
                        layer.backward_weight_s);
  text += fmt::format(", static: {}B", layer.static_bytes);
  if (layer.gradient_bytes) text += fmt::format(", gradient: {}B", *layer.gradient_bytes);
  text += fmt::format(", saved: {}B, output: {}B", layer.saved_bytes, layer.output_bytes);
  std::string choices;
  for (const RecomputeChoice& choice : layer.recompute) {
    choices += fmt::format("{}{{name: \"{}\", time: {}s, saved: {}B, working: {}B}}",
                           choices.empty() ? "" : ", ", choice.name, choice.time_s,
                           layer.saved_bytes - choice.freed_bytes, choice.working_bytes);
  }
  return choices.empty() ? text : text + fmt::format(", recompute: [{}]", choices);
}

}  // namespace

LayerTable read_layers(const std::filesystem::path& path) {
  return parse_layers(read_file(path), path);
}

LayerTable parse_layers(const std::string& text, const std::filesystem::path& path) {
  YamlMap map = parse_yaml(text, path, "layers");
  LayerTable table{.path = path.string(), .sha256 = sha256(text)};
  table.global_batch = map.integer("global_batch", 1, max_samples);
  table.sizes = parse_sizes(map);
  map.finish();
  return table;
}

std::vector<LayerRow> rows(const std::vector<Layer>& layers) {
  std::vector<LayerRow> rows;
  for (size_t first = 0; first < layers.size();) {
    const size_t count = run_length(layers, first);
    rows.push_back({&layers[first], layers[first].name, static_cast<int64_t>(count)});
    number_of(layers[first].name, rows.back().name);
    if (count == 1) rows.back().name = layers[first].name;
    first += count;
  }
  return rows;
}

std::string to_yaml(const LayerTable& table) {
  std::string text =
      fmt::format("penstock: layers\nglobal_batch: {}\nsizes:\n", table.global_batch);
  for (const LayerCosts& size : table.sizes) {
    text += fmt::format("  - microbatch: {}\n    layers:\n", size.microbatch);
    for (const LayerRow& row : rows(size.layers))
      text += fmt::format("      - {{{}}}\n", row_text(row));
  }
  return text;
}

}  // namespace penstock
