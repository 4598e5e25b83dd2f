// The address by which ranks on other machines reach this one.
#pragma once

#include <string>

namespace penstock {

/// Of the first interface that GLOO_SOCKET_IFNAME lists (separated by commas) and this machine has,
/// as in torch.distributed; unless that is set, of the interface that leads to `host`, where the
/// store is; where that is the loopback, since the store is on this machine, of the first other
/// interface that is up. (The host's own name would not do: Debian gives it 127.0.1.1.) Throws
/// InputError where there is no such interface.
std::string address_towards(const std::string& host, int port);

}  // namespace penstock
