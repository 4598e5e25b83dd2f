#include "launch/supervision/sockets.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

namespace penstock {

namespace {

constexpr int kConnect_s = 10;
constexpr int kUnanswered_ms = 5000;                    // of what was sent
constexpr int kQuiet_s = 2, kProbe_s = 1, kProbes = 4;  // of a connection that says nothing

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void set(int socket, int level, int option, int value) {
  if (setsockopt(socket, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

/// A socket that is connected there, or -1 with errno.
int connect_to(const addrinfo& place) {
  const int found = socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (found < 0) return -1;
  const timeval patience{kConnect_s, 0}, none{};
  setsockopt(found, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // of `connect`, too
  if (connect(found, place.ai_addr, place.ai_addrlen) == 0) {
    setsockopt(found, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    return found;
  }
  const int why = errno;
  close(found);
  errno = why;
  return -1;
}

}  // namespace

ListeningSocket listen_anywhere() {
  int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool six = listener >= 0;
  if (!six) listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) fail("socket");
  if (six) set(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  sockaddr_storage own{};  // any address, any port
  own.ss_family = six ? AF_INET6 : AF_INET;
  socklen_t length = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (bind(listener, address, length) != 0 || listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, address, &length) != 0)
    fail("listening for other supervisors");
  const in_port_t port = six ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&own)->sin_port;
  return {listener, ntohs(port)};
}

void probe(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kQuiet_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbe_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnanswered_ms);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

int connect_to(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    errno = EHOSTUNREACH;
    return -1;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, freeaddrinfo);
  int made = -1;
  for (const addrinfo* place = found; place != nullptr && made < 0; place = place->ai_next)
    made = connect_to(*place);
  return made;
}

std::string host_of_peer(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  std::array<char, NI_MAXHOST> host{};
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  if (getpeername(socket, address, &length) != 0 ||
      getnameinfo(address, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  const std::string_view found = host.data();
  constexpr std::string_view kMapped = "::ffff:";  // an IPv4 address
  return std::string(found.starts_with(kMapped) ? found.substr(kMapped.size()) : found);
}

void send_line(int socket, const nlohmann::json& message) {
  const std::string line = message.dump() + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    rest.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace penstock
