#include "graph/sharding/choice/memory_limit.hpp"

#include <algorithm>
#include <utility>

namespace penstock::sharding {
namespace {

/// So many prices are tried between the ends; the pairs of completions around the limit come nearer
/// to each other with each.
constexpr int max_prices = 16;

class Prices {
 public:
  Prices(const MemoryLimit& limit, const Graph& graph, const Pins& pins, int64_t batch, int parts,
         int64_t microbatches)
      : limit_(limit),
        graph_(graph),
        pins_(pins),
        batch_(batch),
        parts_(parts),
        microbatches_(microbatches),
        max_price_(max_price(graph, batch) / limit.in_flight) {}

  Fitting find() const {
    Fitting cheap = at(0);
    if (cheap.fits) return cheap;
    Fitting small = at(max_price_);
    if (!small.fits) return bytes(cheap) < bytes(small) ? std::move(cheap) : std::move(small);
    for (int tried = 0; tried < max_prices; ++tried) {
      Fitting between = at(price_between(cheap, small));
      const bool is_new =
          bytes(between) < bytes(cheap) && between.completion.cost < small.completion.cost;
      if (!is_new) break;
      (between.fits ? small : cheap) = std::move(between);
    }
    return small;
  }

 private:
  int64_t bytes(const Fitting& found) const {
    return held_bytes(found.completion, limit_.in_flight);
  }

  Fitting at(int64_t price) const {
    Pins pins = pins_;
    pins.costs.state_byte = price;
    pins.costs.saved_byte = price * limit_.in_flight;
    Completion completion = complete(graph_, pins, batch_, parts_, microbatches_);
    const bool fits = held_bytes(completion, limit_.in_flight) <= limit_.bytes;
    return {std::move(completion), std::move(pins), fits};
  }

  /// At which both are worth as much.
  int64_t price_between(const Fitting& cheap, const Fitting& small) const {
    const int64_t saved = std::max<int64_t>(bytes(cheap) - bytes(small), 1);
    return std::clamp<int64_t>((small.completion.cost - cheap.completion.cost) / saved, 0,
                               max_price_);
  }

  const MemoryLimit limit_;
  const Graph& graph_;
  const Pins& pins_;
  const int64_t batch_;
  const int parts_;
  const int64_t microbatches_;
  const int64_t max_price_;
};

}  // namespace

int64_t held_bytes(const Completion& completion, int64_t in_flight) {
  return completion.state_bytes + in_flight * completion.saved_bytes;
}

Fitting complete_within(const MemoryLimit& limit, const Graph& graph, const Pins& pins,
                        int64_t batch, int parts, int64_t microbatches) {
  return Prices(limit, graph, pins, batch, parts, microbatches).find();
}

std::vector<Pins> priced(const Graph& graph, const Pins& pins, int64_t batch, int64_t max_batch,
                         int parts) {
  if (pins != Pins()) return {pins};
  Pins dear = pins;
  dear.costs.state_byte = dear.costs.saved_byte = max_price(graph, max_batch);
  const bool same =
      same_layouts(complete(graph, pins, batch, parts), complete(graph, dear, batch, parts));
  if (same) return {pins};
  return {pins, dear};
}

}  // namespace penstock::sharding
