#include "launch/supervision/fleet.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace penstock {

namespace {

constexpr int kConnect_s = 10;
constexpr size_t kLongestGreeting = 200;
constexpr int kUnanswered_ms = 5000;                    // of what was sent
constexpr int kQuiet_s = 2, kProbe_s = 1, kProbes = 4;  // of a connection that says nothing

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void set(int socket, int level, int option, int value) {
  if (setsockopt(socket, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

void probe(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kQuiet_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbe_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnanswered_ms);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
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

void send_line(int socket, const nlohmann::json& message) {
  const std::string line = message.dump() + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // `receive` finds out
    rest.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace

Fleet::Fleet(int process) : process_(process), poll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (poll_ < 0) fail("epoll");
  if (leads()) listen();
}

Fleet::~Fleet() {
  for (const auto& [socket, link] : links_) close(socket);
  if (listener_ >= 0) close(listener_);
  close(poll_);
}

void Fleet::listen() {
  listener_ = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool six = listener_ >= 0;
  if (!six) listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) fail("socket");
  if (six) set(listener_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  sockaddr_storage own{};  // any address, any port
  own.ss_family = six ? AF_INET6 : AF_INET;
  socklen_t length = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (bind(listener_, address, length) != 0 || ::listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, address, &length) != 0)
    fail("listening for other supervisors");
  const in_port_t port = six ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&own)->sin_port;
  address_ = {"", ntohs(port), random_token()};
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener_}};
  if (epoll_ctl(poll_, EPOLL_CTL_ADD, listener_, &event) != 0) fail("epoll");
}

void Fleet::join(const FleetAddress& leader) {
  const int socket = connect_to(leader.host, leader.port);
  if (socket < 0) {
    throw std::runtime_error(
        fmt::format("cannot reach the penstock of process 0 at {}, port {}: {}", leader.host,
                    leader.port, std::generic_category().message(errno)));
  }
  add(socket, 0);
  has_joined_ = true;
  send_line(socket, {{"process", process_}, {"token", leader.token}});
}

void Fleet::add(int socket, int process) {
  probe(socket);
  epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
  if (epoll_ctl(poll_, EPOLL_CTL_ADD, socket, &event) != 0) fail("epoll");
  const std::lock_guard lock(mutex_);
  links_[socket].process = process;
}

void Fleet::accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) add(socket, -1);
}

void Fleet::receive(const OnMessage& on_message, const OnLoss& on_loss) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(poll_, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int socket = events[static_cast<size_t>(i)].data.fd;
    if (socket == listener_) {
      accept();
    } else {
      read(socket, on_message, on_loss);
    }
  }
}

void Fleet::read(int socket, const OnMessage& on_message, const OnLoss& on_loss) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return remove(socket, on_loss);
  Link& link = links_.at(socket);
  link.unread.append(buffer.data(), static_cast<size_t>(got));
  for (size_t end; (end = link.unread.find('\n')) != std::string::npos;) {
    const std::string line = link.unread.substr(0, end);
    link.unread.erase(0, end + 1);
    if (!take(link, line, on_message)) return remove(socket, on_loss);
  }
  if (link.process < 0 && link.unread.size() > kLongestGreeting) remove(socket, on_loss);
}

/// False where the line is none of a supervisor of this run.
bool Fleet::take(Link& link, const std::string& line, const OnMessage& on_message) {
  const Message message = Message::parse(line, nullptr, false);
  if (!message.is_object()) return false;
  if (link.process >= 0) {
    on_message(link.process, message);
    return true;
  }
  if (!message.contains("token") || message["token"] != address_.token) return false;
  const std::lock_guard lock(mutex_);
  link.process = message.at("process");
  return true;
}

void Fleet::remove(int socket, const OnLoss& on_loss) {
  const int process = links_.at(socket).process;
  {
    const std::lock_guard lock(mutex_);
    links_.erase(socket);
    close(socket);
  }
  if (process >= 0) on_loss(process);
}

void Fleet::send(int process, const Message& message) {
  const std::lock_guard lock(mutex_);
  for (const auto& [socket, link] : links_)
    if (link.process == process) send_line(socket, message);
}

void Fleet::send(const Message& message) {
  const std::lock_guard lock(mutex_);
  for (const auto& [socket, link] : links_)
    if (link.process >= 0) send_line(socket, message);
}

}  // namespace penstock
