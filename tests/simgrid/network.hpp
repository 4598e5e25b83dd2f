// SimGrid's side of a Platform: hosts, links and routes, built in C++.
#pragma once

#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/simgrid/platform.hpp"

namespace penstock::testing {

namespace sg4 = simgrid::s4u;

/// How a channel's bytes travel: between two hosts of its own, so that the routes of two channels
/// between the same ranks are two. Before that, `latency_s` where it is not in the route's links.
struct Path {
  sg4::Host *from, *to;
  double latency_s, propagation_s;
  bool limited;  // a route with links; without one bytes take no time
};

/// Sets SimGrid up as replay.hpp says.
class Network {
 public:
  explicit Network(const Platform& platform);
  /// A host for a rank's actor; nothing is computed on it.
  sg4::Host* add_host();
  /// The way from one rank to another; every call makes a wire of its own.
  Path add_path(int sender, int receiver);
  /// Until all actors are done.
  void run();

 private:
  sg4::Link* add_link(double bandwidth, double latency_s);
  /// The link that all channels through the same thing share, made at first use.
  sg4::Link* shared_link(const std::string& kind, int number, double capacity);
  /// The links that a channel shares with others, each once.
  std::vector<sg4::Link*> shared_links(int sender, int receiver);

  const Platform platform_;
  sg4::Engine engine_;
  sg4::NetZone* zone_;
  int hosts_ = 0, links_ = 0;
  std::map<std::pair<std::string, int>, sg4::Link*> shared_;
};

/// Blocks the calling actor until the bytes have left the path, which is then free.
void transfer(const Path& path, int64_t bytes);

}  // namespace penstock::testing
