#include "tests/simgrid/network.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace penstock::testing {

namespace {

/// replay.hpp says why each.
sg4::Engine make_engine() {
  std::vector<std::string> words = {
      "replay",
      "--log=root.thres:error",
      "--cfg=network/model:CM02",
      "--cfg=network/bandwidth-factor:1",
      "--cfg=network/latency-factor:1",
      "--cfg=network/TCP-gamma:0",
      "--cfg=network/crosstraffic:0",
      "--cfg=network/weight-S:0",
      "--cfg=surf/precision:1e-12",
      "--cfg=maxmin/precision:1e-9",
  };
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  return sg4::Engine(&count, pointers.data());
}

}  // namespace

Network::Network(const Platform& platform)
    : platform_(platform), engine_(make_engine()), zone_(sg4::create_full_zone("ranks")) {}

sg4::Host* Network::add_host() {
  return zone_->create_host("host" + std::to_string(hosts_++), 1.0)->seal();
}

sg4::Link* Network::add_link(double bandwidth, double latency_s) {
  return zone_->create_link("link" + std::to_string(links_++), bandwidth)
      ->set_latency(latency_s)
      ->seal();
}

sg4::Link* Network::shared_link(const std::string& kind, int number, double capacity) {
  const auto [found, added] = shared_.try_emplace({kind, number}, nullptr);
  if (added) found->second = add_link(capacity, 0);
  return found->second;
}

std::vector<sg4::Link*> Network::shared_links(int sender, int receiver) {
  std::vector<sg4::Link*> links;
  const auto pass = [&](const std::string& kind, int number, double capacity) {
    if (capacity <= 0) return;
    sg4::Link* link = shared_link(kind, number, capacity);
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  };
  const auto pass_both = [&](const std::string& kind, int out, int in, const Capacity& capacity) {
    pass(kind + " out", out, capacity.out);
    if (capacity.half_duplex)
      pass(kind + " out", in, capacity.out);
    else
      pass(kind + " in", in, capacity.in);
  };
  const int from = platform_.node(sender), to = platform_.node(receiver);
  if (from == to) {
    pass_both("bus", from, to, platform_.bus);
  } else {
    pass_both("card", platform_.card_of(sender), platform_.card_of(receiver), platform_.card);
    pass("switch", 0, platform_.switch_capacity);
  }
  return links;
}

Path Network::add_path(int sender, int receiver) {
  const Wire& wire = platform_.wire(sender, receiver);
  const bool apart = platform_.shares();  // replay.hpp: fairness
  std::vector<sg4::LinkInRoute> route;
  if (wire.bandwidth > 0) {
    route.emplace_back(add_link(wire.bandwidth, apart ? 0 : wire.latency_s));
  }
  for (sg4::Link* link : shared_links(sender, receiver)) route.emplace_back(link);
  const bool in_route = !apart && wire.bandwidth > 0;
  Path path{add_host(), add_host(), in_route ? 0 : wire.latency_s, wire.propagation_s,
            !route.empty()};
  if (path.limited) {
    zone_->add_route(path.from->get_netpoint(), path.to->get_netpoint(), nullptr, nullptr, route,
                     false);
  }
  return path;
}

void Network::run() {
  zone_->seal();
  engine_.run();
}

void transfer(const Path& path, int64_t bytes) {
  if (path.latency_s > 0) sg4::this_actor::sleep_for(path.latency_s);
  if (path.limited) sg4::Comm::sendto(path.from, path.to, static_cast<uint64_t>(bytes));
}

}  // namespace penstock::testing
