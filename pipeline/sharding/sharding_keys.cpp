#include "pipeline/sharding/sharding_keys.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/yaml.hpp"

namespace penstock {

namespace {

using sharding::Pin;

constexpr int64_t max_dimension = 63;
constexpr int64_t max_blocks = 1'000'000;
constexpr const char* key_whole = "whole";
constexpr const char* key_random = "random";
constexpr const char* random_exact = "exact";
constexpr const char* random_by_part = "by_part";

sharding::Layout parse_layout(YamlMap& map, const std::string& key) {
  if (!map.has_map(key)) {
    if (map.text(key) == key_whole) return sharding::Layout::identical();
    throw InputError(map.place(key), fmt::format("`{}` is no layout", map.text(key)),
                     "Write {split: DIMENSION}, {split: DIMENSION, blocks: NUMBER} or whole.");
  }
  YamlMap layout = map.map(key);
  const int64_t dimension = layout.integer("split", 0, max_dimension);
  const int64_t blocks = layout.integer("blocks", 1, max_blocks, 1);
  layout.finish();
  return sharding::Layout::split(static_cast<int>(dimension), blocks);
}

/// A mapping, or where an order has to be kept a list of mappings.
std::vector<Pin> parse_pins(YamlMap& map, const std::string& key) {
  std::vector<Pin> pins;
  if (!map.has(key)) return pins;
  for (YamlMap& given : map.has_map(key) ? std::vector{map.map(key)} : map.maps(key))
    for (const std::string& pattern : given.keys())
      pins.push_back({pattern, parse_layout(given, pattern), given.place(pattern)});
  return pins;
}

sharding::Costs parse_prices(YamlMap& map) {
  sharding::Costs costs;
  if (!map.has("prices")) return costs;
  YamlMap prices = map.map("prices");
  costs.state_byte = prices.integer("state", 0, INT64_MAX, 0);
  costs.saved_byte = prices.integer("saved", 0, INT64_MAX, 0);
  prices.finish();
  return costs;
}

/// Do operators draw random numbers for their parts?
bool parse_random(YamlMap& map) {
  const std::string way = map.has(key_random) ? map.text(key_random) : random_exact;
  if (way == random_by_part) return true;
  if (way == random_exact) return false;
  throw InputError(map.place(key_random), fmt::format("`{}` is not known", way),
                   fmt::format("Write {} (what one rank draws) or {} (a seed for each part).",
                               random_exact, random_by_part));
}

nlohmann::ordered_json keys_of(const std::vector<Pin>& pins) {
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  for (const Pin& pin : pins) {
    nlohmann::ordered_json& layout = keys[pin.pattern];
    layout = key_whole;
    if (!pin.layout.is_split()) continue;
    layout = {{"split", pin.layout.dimension()}};
    if (pin.layout.blocks() > 1) layout["blocks"] = pin.layout.blocks();
  }
  return keys;
}

}  // namespace

sharding::Pins parse_sharding(YamlMap map) {
  sharding::Pins pins{parse_pins(map, "parameters"), parse_pins(map, "values"), parse_prices(map),
                      parse_random(map)};
  map.finish();
  return pins;
}

nlohmann::ordered_json sharding_keys(const sharding::Pins& pins) {
  nlohmann::ordered_json keys;
  if (!pins.parameters.empty()) keys["parameters"] = keys_of(pins.parameters);
  if (!pins.values.empty()) keys["values"] = keys_of(pins.values);
  if (pins.costs.state_byte > 0) keys["prices"]["state"] = pins.costs.state_byte;
  if (pins.costs.saved_byte > 0) keys["prices"]["saved"] = pins.costs.saved_byte;
  if (pins.random_by_part) keys[key_random] = random_by_part;
  return keys;
}

}  // namespace penstock
