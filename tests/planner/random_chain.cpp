// Random chains: every case follows from its seed.
#include <random>

#include "tests/planner/chains.hpp"

namespace penstock::test {

namespace {

/// Integers below `bound`, the same on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(bound));
  }
  /// Whole nanoseconds around a millisecond, over a factor of about 100.
  double seconds() { return static_cast<double>(10'000 + below(10'000) * (1 + below(100))) * 1e-9; }

 private:
  std::mt19937_64 engine_;
};

void add_extras(Chain& chain, Dice& dice) {
  ChainCosts& costs = chain.costs;
  for (int unit = 0; unit < costs.units(); ++unit) {
    costs.first_forward_s.push_back(0.2 * costs.forward_s[unit] *
                                    static_cast<double>(dice.below(4) - 1));
    const double share =
        0.1 * static_cast<double>(dice.below(5)) - 0.2;  // also less: it does not accumulate
    costs.first_backward_s.push_back(share * costs.backward_s[unit]);
    costs.optimizer_s.push_back(0.5 * dice.seconds());
  }
  costs.action_s = 2e-5;
  costs.first_action_s = 5e-6 * static_cast<double>(dice.below(3) - 1);
  chain.link.propagation_s = 1e-5 * static_cast<double>(dice.below(10));
  chain.link.sender_s_per_byte = 0.1e-9 * static_cast<double>(dice.below(4));
  chain.link.receiver_s_per_byte = 0.1e-9 * static_cast<double>(dice.below(4));
  chain.link.mode = static_cast<SendMode>(dice.below(2));  // eager or posted
  costs.propagation_s = chain.link.propagation_s;
}

/// The link moves a byte per nanosecond, so bytes are nanoseconds.
void add_cuts(Chain& chain, Dice& dice, const ChainKind& kind) {
  ChainCosts& costs = chain.costs;
  for (int cut = 1; cut < costs.units(); ++cut) {
    const auto bytes = [&] {
      if (kind.coarse) return 1'000'000 * dice.below(3);
      return static_cast<int64_t>(kind.transfer_scale * 1e9 * dice.seconds());
    };
    chain.forward_bytes.push_back(bytes());
    chain.backward_bytes.push_back(bytes());
    const bool forward = !kind.breaks || dice.below(4) > 0;
    const bool backward = forward && (!kind.breaks || dice.below(4) > 0);
    chain.forward_linked.push_back(forward);
    chain.backward_linked.push_back(backward);
    costs.linked.push_back(forward && backward);
    const int64_t down = chain.forward_bytes.back(), up = chain.backward_bytes.back();
    costs.cut_forward_s.push_back(chain.link.transfer_s(down) + chain.link.propagation_s);
    costs.cut_backward_s.push_back(chain.link.transfer_s(up) + chain.link.propagation_s);
    const double send = chain.link.sender_s_per_byte, receive = chain.link.receiver_s_per_byte;
    const CutCompute compute{static_cast<double>(down) * send, static_cast<double>(up) * receive,
                             static_cast<double>(down) * receive, static_cast<double>(up) * send};
    costs.cut_compute.push_back(costs.linked.back() ? compute : CutCompute{});
  }
}

/// From a host that is never behind to one that takes a few times as long as its device.
void add_hosts(Chain& chain, Dice& dice) {
  const auto host_s = [&](double device_s) {
    return device_s * 0.25 * static_cast<double>(dice.below(9));
  };
  for (int unit = 0; unit < chain.costs.units(); ++unit) {
    chain.forward_host_s.push_back(host_s(chain.costs.forward_s[unit]));
    chain.backward_host_s.push_back(host_s(chain.costs.backward_s[unit]));
    chain.input_host_s.push_back(host_s(chain.input_s[unit]));
    chain.weight_host_s.push_back(host_s(chain.weight_s[unit]));
  }
}

}  // namespace

Chain random_chain(uint64_t seed, const ChainKind& kind) {
  Dice dice(seed);
  Chain chain;
  chain.link.bandwidth = 1e9;
  if (kind.coarse) chain.link.mode = SendMode::posted;
  const double equal_s = dice.seconds();
  const auto seconds = [&] {
    if (kind.coarse) return 1e-3 * static_cast<double>(1 + dice.below(2));
    return kind.equal ? equal_s : dice.seconds();
  };
  for (int unit = 0; unit < kind.units; ++unit) {
    chain.costs.forward_s.push_back(seconds());
    chain.costs.backward_s.push_back(2 * seconds());
    const bool varies = !kind.equal && !kind.coarse;
    chain.fixed_bytes.push_back(kind.coarse ? 0 : 1000 * (varies ? 1 + dice.below(20) : 1));
    chain.saved_bytes.push_back(kind.coarse ? 0 : 100 * (varies ? 1 + dice.below(50) : 1));
  }
  if (kind.extras) add_extras(chain, dice);
  add_cuts(chain, dice, kind);
  for (const double backward_s : chain.costs.backward_s) {
    const double share = kind.coarse ? 0.5 : 0.3 + 0.05 * static_cast<double>(dice.below(8));
    const double both = kind.coarse ? 1 : 0.9 + 0.05 * static_cast<double>(dice.below(6));
    chain.input_s.push_back(share * backward_s);
    chain.weight_s.push_back((both - share) * backward_s);
  }
  if (kind.hosts) add_hosts(chain, dice);
  return chain;
}

Chain small_chain(uint64_t seed, bool breaks) {
  ChainKind kind;
  kind.units = 3 + static_cast<int>(seed % 4);
  kind.extras = seed % 3 != 0;
  kind.equal = seed % 5 == 0;
  kind.breaks = breaks;
  kind.hosts = seed % 4 == 3;
  kind.transfer_scale = seed % 2 == 0 ? 0.05 : 0.5;
  return random_chain(seed, kind);
}

}  // namespace penstock::test
