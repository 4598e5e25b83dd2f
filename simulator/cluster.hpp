// The devices and links that a plan runs on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// When the bytes of a SEND move, and whether the sender waits.
enum class SendMode {
  eager,       // at once; the sender goes on
  posted,      // once the receiver has posted its RECV; the sender goes on (Gloo)
  rendezvous,  // once both are there; the sender waits
};

/// A transfer occupies its channel for latency_s + bytes / bandwidth and arrives propagation_s later.
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

/// `ranks` equal devices, all pairs joined by equal links.
struct Cluster {
  std::string path;
  int ranks = 1;
  int64_t memory_bytes = 0;  // per rank; 0: not limited
  Link link;
};

/// Throws InputError.
Cluster read_cluster(const std::filesystem::path& path);
/// The same from the file's text.
Cluster parse_cluster(const std::string& text, const std::filesystem::path& path);

}  // namespace penstock
