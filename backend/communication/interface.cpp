#include "backend/communication/interface.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "base/error.hpp"

namespace penstock {

namespace {

struct InterfaceAddress {
  std::string interface, address;
  bool loopback = false;
};

/// The address in numeric form; "" where it has none.
std::string numeric_address(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  const bool known =
      getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text : "";
}

/// Addresses of the interfaces that are up: IPv4 first, since IPv6 ones may be link-local.
std::vector<InterfaceAddress> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> freed(list, freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if ((entry->ifa_flags & IFF_UP) == 0) continue;
      const std::string address = numeric_address(
          entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      addresses.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return addresses;
}

/// The address from which the system would send to `host` (connecting a datagram socket sends
/// nothing); "" where there is no route.
std::string source_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int handle = socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (handle < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    const bool known = connect(handle, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       getsockname(handle, address, &length) == 0;
    close(handle);
    if (known) return numeric_address(address, length);
  }
  return "";
}

std::string address_of_listed(const std::string& list,
                              const std::vector<InterfaceAddress>& addresses) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::ranges::find(addresses, name, &InterfaceAddress::interface);
    if (found != addresses.end()) return found->address;
  }
  std::string listed;
  for (const InterfaceAddress& own : addresses) listed += " " + own.interface;
  throw InputError("GLOO_SOCKET_IFNAME", "this machine has no interface " + list + " that is up",
                   "It has" + listed + ".");
}

}  // namespace

std::string address_towards(const std::string& host, int port) {
  const std::vector<InterfaceAddress> addresses = own_addresses();
  const char* const listed = std::getenv("GLOO_SOCKET_IFNAME");
  if (listed != nullptr && *listed != '\0') return address_of_listed(listed, addresses);
  std::string source = source_towards(host, port);
  const auto own = std::ranges::find(addresses, source, &InterfaceAddress::address);
  if (own != addresses.end() && !own->loopback) return source;
  const auto other = std::ranges::find(addresses, false, &InterfaceAddress::loopback);
  if (other != addresses.end()) return other->address;
  throw InputError("network", "this machine has no interface but the loopback",
                   "Ranks on other machines cannot reach it; set GLOO_SOCKET_IFNAME.");
}

}  // namespace penstock
