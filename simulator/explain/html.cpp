#include "simulator/explain/html.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "simulator/explain/page/page_files.hpp"
#include "simulator/explain/parts_json.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array all_kinds = {Kind::forward,         Kind::backward,      Kind::backward_input,
                                  Kind::backward_weight, Kind::send_forward,  Kind::recv_forward,
                                  Kind::send_backward,   Kind::recv_backward, Kind::reduce_grad,
                                  Kind::optimizer,       Kind::overlap};
constexpr std::array all_parts = {PathStep::Part::compute, PathStep::Part::reduce,
                                  PathStep::Part::transfer, PathStep::Part::launch,
                                  PathStep::Part::wait};
constexpr std::array all_causes = {PathStep::Cause::start,   PathStep::Cause::previous,
                                   PathStep::Cause::message, PathStep::Cause::channel,
                                   PathStep::Cause::receive, PathStep::Cause::agreement,
                                   PathStep::Cause::unknown};

/// [kind, name, start, end, bytes, rank at the other end or -1] of each event, per rank.
std::vector<Json> events_by_rank(const Page& page) {
  std::vector<Json> ranks(page.program.ranks.size(), Json::array());
  for (const TimelineEvent& event : page.simulation.timeline) {
    const Action& action = event.action;
    const bool moves = is_send(action.kind) || is_receive(action.kind);
    const int peer =
        moves ? page.program.rank_of_stage[static_cast<size_t>(peer_stage(action))] : -1;
    ranks[static_cast<size_t>(event.rank)].push_back({static_cast<int>(action.kind),
                                                      to_string(action), event.start_s, event.end_s,
                                                      event.bytes, peer});
  }
  return ranks;
}

/// [time, bytes] of each sample, per rank.
std::vector<Json> curves_by_rank(const Page& page) {
  std::vector<Json> ranks(page.program.ranks.size(), Json::array());
  for (const MemorySample& sample : page.simulation.memory) {
    ranks[static_cast<size_t>(sample.rank)].push_back({sample.time_s, sample.bytes});
  }
  return ranks;
}

Json path_json(const CriticalPath& path) {
  Json json = {{"compute_s", path.compute_s},
               {"reduce_s", path.reduce_s},
               {"transfer_s", path.transfer_s},
               {"launch_s", path.launch_s},
               {"wait_s", path.wait_s}};
  for (const PathStep::Part part : all_parts) json["parts"].push_back(name(part));
  for (const PathStep::Cause cause : all_causes) json["causes"].push_back(describe(cause));
  json["steps"] = Json::array();
  for (const PathStep& step : path.steps) {
    json["steps"].push_back({static_cast<int>(step.part), static_cast<int>(step.cause), step.rank,
                             step.receiver, to_string(step.action), step.start_s, step.end_s});
  }
  return json;
}

Json data_json(const Page& page) {
  const Simulation& simulation = page.simulation;
  Json json = {{"title", page.title},
               {"makespan_s", simulation.makespan_s},
               {"bubble", simulation.bubble},
               {"stages", page.program.stage_count()},
               {"microbatches", page.program.microbatches},
               {"limiting_rank", page.explanation.limiting_rank}};
  for (const Kind kind : all_kinds) json["kinds"].push_back(name(kind));
  json["path"] = path_json(page.explanation.path);
  std::vector<Json> events = events_by_rank(page), curves = curves_by_rank(page);
  json["ranks"] = Json::array();
  for (size_t r = 0; r < page.program.ranks.size(); ++r) {
    json["ranks"].push_back(
        {{"busy_s", simulation.busy_s[r]},
         {"path_s", page.explanation.path.rank_s[r]},
         {"idle", to_json(page.explanation.idle[r])},
         {"peak_bytes", simulation.peak_memory_bytes[r]},
         {"limit_bytes", page.memory.any() ? page.memory.of(static_cast<int>(r)) : 0},
         {"memory", to_json(simulation.peak_memory[r])},
         {"events", std::move(events[r])},
         {"curve", std::move(curves[r])}});
  }
  return json;
}

/// JSON may stand in a script element as long as nothing in it can end that element.
std::string script_text(const Json& json) {
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      default: safe += c;
    }
  }
  return safe;
}

struct Filling {
  std::string_view mark;
  std::string_view text;
};

/// The frame with each mark replaced, in the order in which they stand in it.
template <size_t count>
std::string fill(std::string_view frame, const std::array<Filling, count>& fillings) {
  std::string page;
  for (const Filling& filling : fillings) {
    const size_t at = frame.find(filling.mark);
    if (at == std::string_view::npos) throw std::logic_error("page.html lacks a mark");
    page += frame.substr(0, at);
    page += filling.text;
    frame.remove_prefix(at + filling.mark.size());
  }
  return page += frame;
}

}  // namespace

std::string to_html(const Page& page) {
  const std::string title = html_text(page.title), data = script_text(data_json(page));
  std::string script;
  for (const std::string_view file : page_files::scripts) script += file;
  return fill(page_files::frame, std::array<Filling, 4>{{{"@title@", title},
                                                         {"@style@", page_files::style},
                                                         {"@data@", data},
                                                         {"@script@", script}}});
}

}  // namespace penstock
