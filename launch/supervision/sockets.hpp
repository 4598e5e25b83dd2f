// TCP connections between supervisors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

/// A socket that listens on all interfaces, at a port that the system has given out.
struct ListeningSocket {
  int socket = -1, port = 0;
};
/// Throws std::system_error.
ListeningSocket listen_anywhere();

/// A socket that is connected there, or -1 with errno; within some 10 s.
int connect_to(const std::string& host, int port);

/// Has the system find out within 10 s that the other end, its node or the network is gone. Throws
/// std::system_error.
void probe(int socket);

/// The numeric address of the other end.
std::string host_of_peer(int socket);

/// A message as a line. What cannot be sent is lost: reading tells that the other end is gone.
void send_line(int socket, const nlohmann::json& message);

}  // namespace penstock
