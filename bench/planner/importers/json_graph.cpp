#include "bench/planner/importers/json_graph.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace penstock {

double nonnegative(const JsonValue& value, const std::string& key) {
  const double number = value.number(key);
  if (number < 0) value.at(key).refuse(fmt::format("{} is negative", number), "Write 0 or more.");
  return number;
}

std::pair<int, int> read_ends(const JsonValue& edge, const NodeNames& names) {
  const auto end = [&](const char* key) {
    return names.find(std::to_string(edge.integer(key)), edge.at(key).place());
  };
  return {end("sourceId"), end("destId")};
}

}  // namespace penstock
