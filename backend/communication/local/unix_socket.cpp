#include "backend/communication/local/unix_socket.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace penstock {

namespace {

constexpr int kAnswer_ms = 60000;

Descriptor make_socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

std::string random_name() {
  uint64_t parts[2] = {};
  if (getrandom(parts, sizeof parts, 0) != sizeof parts) return "";
  char name[64];
  snprintf(name, sizeof name, "penstock-%016lx%016lx", parts[0], parts[1]);
  return name;
}

/// An abstract address: no file, and gone with its socket.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

bool readable(const Descriptor& socket) {
  pollfd wait{socket.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&wait, 1, kAnswer_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Listener listen_under_random_name(int backlog) {
  Listener listener{make_socket(), random_name()};
  const auto [address, size] = address_of(listener.name);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  const bool listens = !listener.name.empty() && bind(listener.socket.get(), where, size) == 0 &&
                       listen(listener.socket.get(), backlog) == 0;
  if (!listens) listener.name.clear();
  return listener;
}

Descriptor connect_to(const std::string& name) {
  Descriptor socket = make_socket();
  const auto [address, size] = address_of(name);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  if (connect(socket.get(), where, size) != 0) return {};
  return socket;
}

Descriptor accept_next(const Listener& listener) {
  if (!readable(listener.socket)) return {};
  return Descriptor(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

void send_message(const Descriptor& socket, const void* message, size_t bytes, int descriptor) {
  iovec part{const_cast<void*>(message), bytes};  // sendmsg only reads it
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(entry), &descriptor, sizeof descriptor);
  }
  sendmsg(socket.get(), &header, MSG_NOSIGNAL);
}

bool receive_message(const Descriptor& socket, void* message, size_t bytes,
                     Descriptor& descriptor) {
  if (!readable(socket)) return false;
  iovec part{message, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  if (count != static_cast<ssize_t>(bytes)) return false;
  if (const cmsghdr* const entry = CMSG_FIRSTHDR(&header)) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(entry), sizeof number);
    descriptor = Descriptor(number);
  }
  return true;
}

pid_t process_behind(const Descriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size);
  return credentials.pid;
}

}  // namespace penstock
