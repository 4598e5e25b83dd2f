#include "simulator/explain/page_data.hpp"

#include <algorithm>
#include <array>

#include "simulator/explain/parts_json.hpp"
#include "simulator/explain/rank_time.hpp"
#include "simulator/explain/stage_ranks.hpp"

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

Json kinds_json() {
  Json kinds;
  for (const Kind kind : all_kinds) kinds.push_back(name(kind));
  return kinds;
}

/// The rank at the other end of a transfer, or -1.
int peer_rank(const TimelineEvent& event, const StageRanks& stages) {
  const Action& action = event.action;
  if (!is_transfer(action.kind)) return -1;
  return stages.rank(peer_stage(action), stages.number(action.stage, event.rank));
}

/// A row for each rank: [kind, name, start, end, bytes, rank at the other end or -1] of each event,
/// [time, bytes] of each sample of these ranks. Times from the first event.
std::vector<Json> rows(std::string_view run, int ranks, const Timeline& timeline,
                       const std::vector<MemorySample>& memory) {
  const StageRanks stages(timeline);
  const auto first = std::ranges::min_element(timeline, {}, &TimelineEvent::start_s);
  const double start_s = first == timeline.end() ? 0 : first->start_s;
  std::vector<Json> events(static_cast<size_t>(ranks), Json::array()), curves = events;
  for (const TimelineEvent& event : timeline) {
    const Action& action = event.action;
    events[static_cast<size_t>(event.rank)].push_back(
        {static_cast<int>(action.kind), to_string(action), event.start_s - start_s,
         event.end_s - start_s, event.bytes, peer_rank(event, stages)});
  }
  for (const MemorySample& sample : memory) {
    if (sample.rank >= ranks) continue;
    curves[static_cast<size_t>(sample.rank)].push_back({sample.time_s - start_s, sample.bytes});
  }
  std::vector<Json> rows;
  for (size_t rank = 0; rank < events.size(); ++rank) {
    rows.push_back({{"rank", rank},
                    {"run", run},
                    {"events", std::move(events[rank])},
                    {"curve", std::move(curves[rank])}});
  }
  return rows;
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

Json simulation_json(const Page& page) {
  const Simulation& simulation = page.simulation;
  Json json = {{"bubble", simulation.bubble},
               {"limiting_rank", page.explanation.limiting_rank},
               {"idle", to_json(sum(page.explanation.idle))},
               {"path", path_json(page.explanation.path)},
               {"ranks", Json::array()}};
  for (size_t r = 0; r < page.program.ranks.size(); ++r) {
    json["ranks"].push_back({{"busy_s", simulation.busy_s[r]},
                             {"path_s", page.explanation.path.rank_s[r]},
                             {"idle", to_json(page.explanation.idle[r])},
                             {"peak_bytes", simulation.peak_memory_bytes[r]},
                             {"memory", to_json(simulation.peak_memory[r])}});
  }
  return json;
}

Json stages_json(const std::vector<int>& rank_of_stage, const std::vector<std::string>& modules) {
  Json stages = Json::array();
  for (size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
    stages.push_back({{"rank", rank_of_stage[stage]},
                      {"modules", modules.empty() ? std::string() : modules.at(stage)}});
  }
  return stages;
}

int microbatches(const Timeline& timeline) {
  int last = -1;
  for (const TimelineEvent& event : timeline) last = std::max(last, event.action.microbatch);
  return last + 1;
}

}  // namespace

Json page_data(const Page& page) {
  const Program& program = page.program;
  Json json = {{"title", page.title},
               {"facts", Json::array()},
               {"microbatches", program.microbatches},
               {"span_s", page.simulation.makespan_s},
               {"kinds", kinds_json()},
               {"stages", stages_json(program.rank_of_stage, page.modules)}};
  for (const PageFact& fact : page.facts) json["facts"].push_back({fact.name, fact.text});
  json["rows"] =
      rows("simulated", program.rank_count(), page.simulation.timeline, page.simulation.memory);
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    if (page.memory.any())
      json["rows"][static_cast<size_t>(rank)]["limit_bytes"] = page.memory.of(rank);
  }
  json["simulation"] = simulation_json(page);
  return json;
}

Json page_data(const ComparisonPage& page) {
  const Timeline &predicted = page.predicted.timeline, &measured = page.measured.timeline;
  const int ranks = std::max(rank_count(predicted), rank_count(measured));
  const double predicted_s = makespan_s(predicted), measured_s = makespan_s(measured);
  Json json = {{"title", page.title},
               {"facts", Json::array({{"predicted", page.predicted.title},
                                      {"measured", page.measured.title}})},
               {"microbatches", microbatches(predicted)},
               {"span_s", std::max(predicted_s, measured_s)},
               {"kinds", kinds_json()},
               {"stages", stages_json(StageRanks(predicted).first_ranks(), {})},
               {"rows", Json::array()}};
  std::vector<Json> above = rows("predicted", ranks, predicted, page.predicted.memory);
  std::vector<Json> below = rows("measured", ranks, measured, page.measured.memory);
  const std::vector<RankTime> of_prediction = rank_times(predicted, ranks),
                              of_measurement = rank_times(measured, ranks);
  Json by_rank = Json::array();
  for (size_t rank = 0; rank < above.size(); ++rank) {
    json["rows"].push_back(std::move(above[rank]));
    json["rows"].push_back(std::move(below[rank]));
    by_rank.push_back(
        {{"predicted", to_json(of_prediction[rank])}, {"measured", to_json(of_measurement[rank])}});
  }
  json["comparison"] = {
      {"predicted_s", predicted_s}, {"measured_s", measured_s}, {"ranks", std::move(by_rank)}};
  return json;
}

}  // namespace penstock
