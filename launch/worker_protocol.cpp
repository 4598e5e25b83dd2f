#include "launch/worker_protocol.hpp"

#include <fmt/format.h>

namespace penstock {

nlohmann::json to_json(const WorkerTask& task) {
  return {{"command", task.command},
          {"rank", task.rank},
          {"world_size", task.world_size},
          {"process", task.process},
          {"processes", task.processes},
          {"local_rank", task.local_rank},
          {"local_size", task.local_size},
          {"store_host", task.store_host},
          {"store_prefix", task.store_prefix},
          {"store_port", task.store_port},
          {"store_serve", task.store_serve},
          {"fleet_port", task.fleet_port},
          {"fleet_token", task.fleet_token},
          {"one_machine", task.one_machine},
          {"node", task.node},
          {"launched", task.launched},
          {"device", task.device},
          {"ranks_per_device", task.ranks_per_device},
          {"transport", task.transport},
          {"progress", task.progress},
          {"slots", task.slots},
          {"copied", task.copied},
          {"next_step", task.next_step},
          {"start_timeout_s", task.start_timeout_s},
          {"facts", task.facts},
          {"arguments", task.arguments}};
}

WorkerTask parse_task(const nlohmann::json& json) {
  WorkerTask task;
  json.at("command").get_to(task.command);
  json.at("rank").get_to(task.rank);
  json.at("world_size").get_to(task.world_size);
  json.at("process").get_to(task.process);
  json.at("processes").get_to(task.processes);
  json.at("local_rank").get_to(task.local_rank);
  json.at("local_size").get_to(task.local_size);
  json.at("store_host").get_to(task.store_host);
  json.at("store_prefix").get_to(task.store_prefix);
  json.at("store_port").get_to(task.store_port);
  json.at("store_serve").get_to(task.store_serve);
  json.at("fleet_port").get_to(task.fleet_port);
  json.at("fleet_token").get_to(task.fleet_token);
  json.at("one_machine").get_to(task.one_machine);
  json.at("node").get_to(task.node);
  json.at("launched").get_to(task.launched);
  json.at("device").get_to(task.device);
  json.at("ranks_per_device").get_to(task.ranks_per_device);
  json.at("transport").get_to(task.transport);
  json.at("progress").get_to(task.progress);
  json.at("slots").get_to(task.slots);
  json.at("copied").get_to(task.copied);
  json.at("next_step").get_to(task.next_step);
  json.at("start_timeout_s").get_to(task.start_timeout_s);
  json.at("facts").get_to(task.facts);
  task.arguments = json.at("arguments");
  return task;
}

NLOHMANN_JSON_SERIALIZE_ENUM(FailureKind, {{FailureKind::failure, "failure"},
                                           {FailureKind::input, "input"},
                                           {FailureKind::final, "final"},
                                           {FailureKind::peer, "peer"}})

nlohmann::json to_json(const WorkerError& error) {
  return {{"event", "error"},        {"kind", error.kind}, {"rank", error.rank},
          {"lost", error.lost},      {"step", error.step}, {"action", error.action},
          {"message", error.message}};
}

WorkerError parse_error(const nlohmann::json& json) {
  return {json.at("kind").get<FailureKind>(),   json.at("rank").get<int>(),
          json.at("lost").get<int>(),           json.at("step").get<int64_t>(),
          json.at("action").get<std::string>(), json.at("message").get<std::string>()};
}

std::string place_in_run(int64_t step, const std::string& action) {
  const std::string text =
      step < 0 ? "before its first step" : fmt::format("in step {}", step_number(step));
  return action.empty() ? text : text + " at " + action;
}

nlohmann::json to_json(const Timeline& timeline) {
  nlohmann::json events = nlohmann::json::array();
  for (const TimelineEvent& event : timeline) {
    events.push_back(
        {event.rank, to_string(event.action), event.start_s, event.end_s, event.bytes});
  }
  return events;
}

Timeline parse_timeline(const nlohmann::json& json) {
  Timeline timeline;
  for (const nlohmann::json& event : json) {
    timeline.push_back(
        {event.at(0).get<int>(), parse_action(event.at(1).get<std::string>(), "timeline"),
         event.at(2).get<double>(), event.at(3).get<double>(), event.at(4).get<int64_t>()});
  }
  return timeline;
}

}  // namespace penstock
