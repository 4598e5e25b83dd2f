// The address by which ranks on other machines reach this one.
#pragma once

#include <string>

namespace penstock {

/// The address of the first interface that GLOO_SOCKET_IFNAME lists (separated by commas) and this
/// machine has, as in torch.distributed. Where that is not set, of the interface that leads to
/// `host`, where the store is; if that is the loopback, because the store is on this machine, of
/// the first other interface that is up. (The host's own name would not do: Debian gives it
/// 127.0.1.1.) Throws InputError where there is no such interface.
std::string address_towards(const std::string& host, int port);

}  // namespace penstock
