#include "simulator/engine/lanes.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

Lanes::Lanes(const Program& program, const FlowTable& flows, const Costs& costs,
             const Network& network)
    : microbatches_(static_cast<size_t>(program.microbatches)) {
  for (auto& ends : ends_) ends.resize(program.rank_of_stage.size());
  for (int flow = 0; flow < flows.size(); ++flow) add(program, flows[flow], false, costs);
  for (int flow = flows.size() - 1; flow >= 0; --flow) {
    if (flows[flow].gradient) add(program, flows[flow], true, costs);
  }
  add_routes(network);
}

bool Lanes::share_links() const {
  return std::ranges::any_of(channels_,
                             [](const Channel& channel) { return !channel.route.shared.empty(); });
}

void Lanes::add(const Program& program, const Flow& flow, bool backward, const Costs& costs) {
  const int from = backward ? flow.to : flow.from, to = backward ? flow.from : flow.to;
  const int sender = program.rank_of_stage[static_cast<size_t>(from)];
  const auto id = static_cast<int32_t>(lanes_.size());
  Lane lane{.receiver = program.rank_of_stage[static_cast<size_t>(to)], .first = messages()};
  if (lane.receiver != sender) {
    const Kind kind = backward ? Kind::send_backward : Kind::send_forward;
    lane.payload.bytes = costs.message_bytes({from, kind, 0, to});
    lane.channel = channel(sender, lane.receiver, backward);
    channels_[static_cast<size_t>(lane.channel)].messages += program.microbatches;
  }
  lanes_.push_back(lane);
  ends_[backward][static_cast<size_t>(from)].gives.push_back(id);
  ends_[backward][static_cast<size_t>(to)].needs.push_back(id);
}

int32_t Lanes::channel(int sender, int receiver, bool backward) {
  const auto [at, added] = channel_ids_.try_emplace(std::tuple(sender, receiver, backward),
                                                    static_cast<int32_t>(channels_.size()));
  if (added) channels_.push_back({.sender = sender, .receiver = receiver});
  return at->second;
}

void Lanes::add_routes(const Network& network) {
  std::vector<std::pair<int, int>> ends;
  for (const Channel& channel : channels_) ends.emplace_back(channel.sender, channel.receiver);
  std::vector<Route> routes = network.routes(ends);
  for (size_t c = 0; c < routes.size(); ++c) channels_[c].route = std::move(routes[c]);
  for (Lane& lane : lanes_) {
    if (lane.channel < 0) continue;
    const Route& route = channels_[static_cast<size_t>(lane.channel)].route;
    lane.payload.transfer_s = route.transfer_s(lane.payload.bytes);
    lane.propagation_s = route.propagation_s;
  }
}

}  // namespace penstock
