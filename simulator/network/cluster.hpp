// The devices and links that a plan runs on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"

namespace penstock {

/// When the bytes of a SEND move, and whether the sender waits.
enum class SendMode {
  eager,       // at once; the sender goes on
  posted,      // once the receiver has posted its RECV; the sender goes on (Gloo)
  rendezvous,  // once both are there; the sender waits
};

/// A transfer occupies its channel for latency_s + bytes / bandwidth and arrives propagation_s
/// later.
struct Link {
  double latency_s = 0;
  double bandwidth = 0;  // bytes per second; 0: infinite
  double propagation_s = 0;
  double sender_s_per_byte = 0,
         receiver_s_per_byte = 0;  // compute time that a transfer costs its ranks
  SendMode mode = SendMode::eager;
  int receive_depth = 2;  // posted: receives posted ahead per channel; 0: when reached

  double transfer_s(int64_t bytes) const;
};

/// Do bytes wait until the receiver comes to its RECV?
inline bool posts_when_reached(const Link& link) {
  return link.mode == SendMode::rendezvous ||
         (link.mode == SendMode::posted && link.receive_depth == 0);
}

inline constexpr double min_speed = 1e-6, max_speed = 1e6;

/// `count` equal nodes of `devices` equal devices. Bandwidths in bytes per second, 0: infinite.
struct NodeKind {
  int count = 1, devices = 1;
  std::string device;                   // for people: `H100 SXM`
  int64_t memory_bytes = 0;             // per device; 0: not limited
  int cores = 0;                        // that its devices compute on; 0: each has its own
  double speed = 1;                     // of compute, relative to the device that was profiled
  double latency_s = 0, bandwidth = 0;  // between two devices of the node
  double bus_bandwidth = 0;             // what these links share, in each direction; 0: nothing
  bool bus_full_duplex = true;
  int cards = 1;  // network cards, each for the same number of neighbouring devices
  double card_bandwidth = 0;
  bool card_full_duplex = true;
  bool operator==(const NodeKind&) const = default;
};

/// Between nodes.
struct Interconnect {
  double latency_s = 0, propagation_s = 0;
  double switch_bandwidth = 0;  // of all traffic between nodes; 0: infinite
};

/// How replicas sum their gradients.
struct AllReduce {
  enum class Algorithm { ring, tree, fastest };
  Algorithm algorithm = Algorithm::ring;
  GradientSums sums;  // of the plans that are made for it
};

/// Either `ranks` equal devices, all pairs joined by equal links, or nodes, whose devices are the
/// ranks, in order.
struct Cluster {
  std::string path;
  int ranks = 1;
  int64_t memory_bytes = 0;  // per rank, without nodes; 0: not limited
  Link link;                 // of nodes only how bytes move (mode, receive_depth, …)
  std::vector<NodeKind> nodes;
  std::vector<int> devices;  // of the nodes, by rank; empty: all of them, as listed
  Interconnect between;
  AllReduce all_reduce;

  /// Speed of a rank's device, relative to the one that was profiled.
  double speed(int rank) const;
  /// The speed of the slowest of a rank's replicas, which wait for one another: of the ranks
  /// replica x `of_ranks` + `rank`.
  double slowest_speed(int rank, int of_ranks, int64_t replicas) const;
  /// Memory of a rank's device, in bytes; 0: not limited.
  int64_t memory(int rank) const;
  /// The place of a rank's device: its kind, its node among all, its place in the node. There are
  /// nodes.
  struct Place {
    const NodeKind* kind;
    int node = 0, device = 0;
  };
  Place place(int rank) const;
  /// The place of a device of the nodes, whether it is used or not.
  Place place_of_device(int device) const;
};

/// The same cluster for ranks that use these of its devices; there are nodes that have them.
Cluster on_devices(Cluster cluster, std::vector<int> devices);

/// The cluster less all devices but these, which are in ascending order; nodes of which some are
/// left are each of their own kind. Such a node keeps its cores and its bus, and as many of its
/// cards as the devices left can share evenly. There are nodes, and all of their devices are used.
Cluster with_only(Cluster cluster, const std::vector<int>& devices);

/// Bytes per second, above 0. Throws InputError.
double parse_bandwidth(const std::string& text, const std::string& place);

/// Throws InputError.
Cluster read_cluster(const std::filesystem::path& path);
/// The same from the file's text.
Cluster parse_cluster(const std::string& text, const std::filesystem::path& path);

}  // namespace penstock
