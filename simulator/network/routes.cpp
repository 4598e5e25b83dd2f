// The routes of all channels of a program, and what is shared on them that can slow their bytes.
#include <algorithm>

#include "simulator/network/network.hpp"

namespace penstock {

namespace {

using Users = std::vector<const Route*>;

bool passes(const Route& route, int shared) { return std::ranges::count(route.shared, shared) > 0; }

/// By what is shared: the routes that pass it.
std::vector<Users> users_of(const std::vector<Route>& routes, size_t count) {
  std::vector<Users> users(count);
  for (const Route& route : routes) {
    for (const int shared : route.shared) users[static_cast<size_t>(shared)].push_back(&route);
  }
  return users;
}

/// All who pass it together can never fill it.
bool is_roomy(const Users& users, double capacity) {
  double demand = 0;
  for (const Route* user : users) demand += user->bandwidth;
  return demand <= capacity;
}

/// All who pass it also pass something that is as narrow.
bool is_dominated(int shared, const Users& users, const std::vector<double>& capacity) {
  const auto width = [&](int which) {
    return std::pair(capacity[static_cast<size_t>(which)], which);
  };
  return std::ranges::any_of(users.front()->shared, [&](int other) {
    return width(other) < width(shared) &&
           std::ranges::all_of(users, [&](const Route* user) { return passes(*user, other); });
  });
}

/// Forgets what the routes share and that `slows_nobody`, by its number and those who pass it.
void forget(std::vector<Route>& routes, size_t count, const auto& slows_nobody) {
  const std::vector<Users> users = users_of(routes, count);
  std::vector<char> forgotten(count, 0);
  for (size_t shared = 0; shared < count; ++shared) {
    forgotten[shared] =
        !users[shared].empty() && slows_nobody(static_cast<int>(shared), users[shared]);
  }
  for (Route& route : routes)
    std::erase_if(route.shared, [&](int shared) { return forgotten[static_cast<size_t>(shared)]; });
}

}  // namespace

std::vector<Route> Network::routes(const std::vector<std::pair<int, int>>& channels) const {
  std::vector<Route> routes;
  routes.reserve(channels.size());
  for (const auto& [from, to] : channels) routes.push_back(route(from, to));
  forget(routes, capacity_.size(), [&](int shared, const Users& users) {
    return is_roomy(users, capacity_[static_cast<size_t>(shared)]);
  });
  forget(routes, capacity_.size(),
         [&](int shared, const Users& users) { return is_dominated(shared, users, capacity_); });
  return routes;
}

}  // namespace penstock
