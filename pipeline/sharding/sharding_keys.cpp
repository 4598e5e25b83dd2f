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

/// A key with two ways, the first where it is left out.
struct Choice {
  const char *key, *usual, *other, *advice;
};
constexpr Choice random_numbers{"random", "exact", "by_part",
                                "Write exact (what one rank draws) or by_part (a seed for each "
                                "part)."};
constexpr Choice gathered{"gathered", "kept", "again",
                          "Write kept (the backward keeps what was gathered) or again (it keeps a "
                          "part, and gathers it again)."};

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

/// Is it the other way?
bool parse_choice(YamlMap& map, const Choice& choice) {
  const std::string way = map.has(choice.key) ? map.text(choice.key) : choice.usual;
  if (way == choice.usual || way == choice.other) return way == choice.other;
  throw InputError(map.place(choice.key), fmt::format("`{}` is not known", way), choice.advice);
}

nlohmann::ordered_json keys_of(const std::vector<Pin>& pins) {
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  for (const Pin& pin : pins) {
    if (keys.contains(pin.pattern)) continue;  // the first counts
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
                      parse_choice(map, random_numbers), parse_choice(map, gathered)};
  map.finish();
  return pins;
}

nlohmann::ordered_json sharding_keys(const sharding::Pins& pins) {
  nlohmann::ordered_json keys;
  if (!pins.parameters.empty()) keys["parameters"] = keys_of(pins.parameters);
  if (!pins.values.empty()) keys["values"] = keys_of(pins.values);
  if (pins.costs.state_byte > 0) keys["prices"]["state"] = pins.costs.state_byte;
  if (pins.costs.saved_byte > 0) keys["prices"]["saved"] = pins.costs.saved_byte;
  if (pins.random_by_part) keys[random_numbers.key] = random_numbers.other;
  if (pins.gathers_again) keys[gathered.key] = gathered.other;
  return keys;
}

}  // namespace penstock
