#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {

Json parse(const std::string& text) { return Json::parse(text); }

std::pair<Json, std::vector<std::string>> parse_config(const std::string& text) {
  std::vector<std::string> names;
  const auto note = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 2) names.push_back(parsed.get<std::string>());
    return true;
  };
  Json document = Json::parse(text, note);
  return {std::move(document), std::move(names)};
}

int64_t whole(const Json& value) { return value.get_ref<const int64_t&>(); }

int small(const Json& value) {
  const int64_t number = whole(value);
  return number == static_cast<int>(number) ? static_cast<int>(number) : -1;
}

}  // namespace penstock::pt2
