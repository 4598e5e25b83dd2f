#include "launch/supervision/fleet.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <stdexcept>
#include <system_error>

#include "launch/supervision/sockets.hpp"

namespace penstock {

namespace {

constexpr size_t kLongestGreeting = 400;

void watch(int poll, int socket) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
  if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll");
}

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace

Fleet::Fleet(int process) : process_(process), poll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (poll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll");
  const ListeningSocket made = listen_anywhere();
  listener_ = made.socket;
  address_ = {"", made.port, random_token()};
  addresses_[process_] = {"127.0.0.1", made.port, address_.token};
  watch(poll_, listener_);
}

Fleet::~Fleet() {
  for (const auto& [socket, link] : links_) close(socket);
  if (listener_ >= 0) close(listener_);
  close(poll_);
}

void Fleet::join(const FleetAddress& leader, int process) {
  const int socket = connect_to(leader.host, leader.port);
  if (socket < 0) {
    throw std::runtime_error(
        fmt::format("cannot reach the penstock of process {} at {}, port {}: {}", process,
                    leader.host, leader.port, std::generic_category().message(errno)));
  }
  add(socket, process);
  leader_ = process;
  has_joined_ = true;
  address_.token = addresses_[process_].token = leader.token;
  addresses_[process] = leader;
  send_line(socket, {{"process", process_}, {"token", leader.token}, {"port", address_.port}});
}

void Fleet::add(int socket, int process) {
  probe(socket);
  watch(poll_, socket);
  const std::lock_guard lock(mutex_);
  links_[socket].process = process;
}

void Fleet::accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) add(socket, -1);
}

void Fleet::receive(const OnMessage& on_message, const OnLoss& on_loss, const OnGuest& on_guest) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(poll_, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int socket = events[static_cast<size_t>(i)].data.fd;
    if (socket == listener_) {
      accept();
    } else {
      read(socket, on_message, on_loss, on_guest);
    }
  }
}

void Fleet::read(int socket, const OnMessage& on_message, const OnLoss& on_loss,
                 const OnGuest& on_guest) {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return remove(socket, on_loss);
  Link& link = links_.at(socket);
  link.unread.append(buffer.data(), static_cast<size_t>(got));
  for (size_t end; (end = link.unread.find('\n')) != std::string::npos;) {
    const std::string line = link.unread.substr(0, end);
    link.unread.erase(0, end + 1);
    const Message message = Message::parse(line, nullptr, false);
    if (link.process >= 0 && message.is_object()) {
      on_message(link.process, message);
    } else if (!knows(message)) {
      return remove(socket, on_loss);
    } else if (!message.contains("process")) {
      return hand_over(socket, message, on_guest);
    } else {
      greet(socket, link, message);
    }
  }
  if (link.process < 0 && link.unread.size() > kLongestGreeting) remove(socket, on_loss);
}

/// Is it the first line of a supervisor of this run?
bool Fleet::knows(const Message& greeting) const {
  return greeting.is_object() && greeting.contains("token") && greeting["token"] == address_.token;
}

void Fleet::greet(int socket, Link& link, const Message& greeting) {
  const std::lock_guard lock(mutex_);
  link.process = greeting.at("process");
  addresses_[link.process] = {host_of_peer(socket), greeting.at("port"), address_.token};
}

void Fleet::hand_over(int socket, const Message& greeting, const OnGuest& on_guest) {
  {
    const std::lock_guard lock(mutex_);
    links_.erase(socket);
  }
  epoll_ctl(poll_, EPOLL_CTL_DEL, socket, nullptr);
  on_guest(socket, greeting);
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
