#include "graph/sharding/choice/chosen_pins.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.hpp"

namespace penstock::sharding {
namespace {

/// Each adds one pin of values.
constexpr int max_rounds = 24;

std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> parts{""};
  for (const char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_number(const std::string& component) {
  return !component.empty() &&
         std::ranges::all_of(component, [](char c) { return c >= '0' && c <= '9'; });
}

/// The last components from `first` on, numbers as `*` but for the last `kept`.
std::string pattern_from(const std::vector<std::string>& parts, size_t first, size_t kept) {
  std::string pattern;
  for (size_t i = parts.size(); i-- > first;) {
    const bool is_open = is_number(parts[i]) && kept == 0;
    if (is_number(parts[i]) && kept > 0) --kept;
    pattern = (is_open ? "*" : parts[i]) + (pattern.empty() ? "" : "." + pattern);
  }
  return first == 0 ? pattern : "*." + pattern;
}

/// From short ones that may mean much to the name itself.
std::vector<std::string> patterns_of(const std::string& name) {
  const std::vector<std::string> parts = components(name);
  const auto numbers = static_cast<size_t>(std::ranges::count_if(parts, is_number));
  std::vector<std::string> patterns;
  for (size_t own = std::min<size_t>(2, parts.size()); own <= parts.size(); ++own)
    for (size_t kept = 0; kept <= numbers; ++kept)
      patterns.push_back(pattern_from(parts, parts.size() - own, kept));
  return patterns;
}

class Chooser {
 public:
  Chooser(const Graph& graph, const Pins& asked, int64_t batch, int parts, int64_t microbatches,
          FirstOutput first)
      : graph_(graph),
        microbatches_(microbatches),
        first_(first),
        chosen_(complete(graph, asked, batch, parts, microbatches, first)),
        pins_{asked.parameters,
              asked.values,
              {.sent_byte = asked.costs.sent_byte},
              asked.random_by_part,
              asked.gathers_again} {}

  /// Nothing where they are not enough.
  std::optional<Pins> run() {
    for (int tensor = 0; tensor < static_cast<int>(graph_.tensors.size()); ++tensor)
      if (chosen_.tensors[tensor].is_split()) pin_parameter(tensor);
    Completion found = completed(pins_);
    for (int round = 0; round < max_rounds && !same_layouts(found, chosen_); ++round) {
      if (!pin_difference(found)) return std::nullopt;
      found = completed(pins_);
    }
    if (!same_layouts(found, chosen_)) return std::nullopt;
    leave_out_needless();
    return pins_;
  }

 private:
  Completion completed(const Pins& pins) const {
    return complete(graph_, pins, chosen_.batch, chosen_.parts, microbatches_, first_);
  }

  /// Nothing where a pin is impossible.
  std::optional<PinnedLayouts> meant(const Pins& pins) const {
    try {
      return resolve(graph_, pins, chosen_.batch, chosen_.parts);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  bool is_pinned(int tensor) const {
    return resolve(graph_, pins_, chosen_.batch, chosen_.parts).tensors.contains(tensor);
  }
  void pin_parameter(int tensor) {
    if (is_pinned(tensor)) return;
    const Layout layout = chosen_.tensors[tensor];
    for (const std::string& pattern : patterns_of(graph_.tensors[tensor].name)) {
      const auto all = meant({{{pattern, layout}}, {}, {}});
      const bool is_right = all && all->tensors.contains(tensor) &&
                            std::ranges::all_of(all->tensors, [&](const auto& pin) {
                              return chosen_.tensors[pin.first] == layout;
                            });
      if (!is_right) continue;
      pins_.parameters.push_back({pattern, layout});
      return;
    }
  }

  /// The layout that a value is made in, or is converted to right there.
  static std::optional<Layout> settled(const Graph& graph, const Completion& completion,
                                       ValueId value) {
    const OperatorId producer = graph.values[value].producer;
    if (producer < 0 || completion.operators[producer] == Signature()) return std::nullopt;
    const std::vector<ValueId>& made = graph.operators[producer].outputs;
    const size_t at = std::ranges::find(made, value) - made.begin();
    const Layout layout = completion.operators[producer].results[at];
    for (const Converted& each : completion.conversions)
      if (each.value == value && layout.kind() == Layout::Kind::partial) return each.to;
    return layout;
  }
  std::optional<Layout> settled(ValueId value) const { return settled(graph_, chosen_, value); }

  /// Pins the first value that is held otherwise.
  bool pin_difference(const Completion& found) {
    const auto pinned = meant(pins_);
    for (const Operator& op : graph_.operators)
      for (const ValueId value : op.outputs) {
        if (value < 0 || !is_floating(graph_.values[value].dtype)) continue;
        const auto layout = settled(value);
        if (!layout || layout == settled(graph_, found, value)) continue;
        const bool can_be_said = layout->is_split() || layout->kind() == Layout::Kind::identical;
        if (can_be_said && !pinned->values.contains(value) && pin_value(op, value, *layout))
          return true;
      }
    return false;
  }

  /// The pattern that means most values of those that are held so, and no others.
  bool pin_value(const Operator& op, ValueId value, const Layout& layout) {
    std::vector<std::string> names{op.name};
    for (const std::string& call : op.modules) names.push_back(module_of_call(call));
    std::string best;
    size_t most = 0;
    for (const std::string& name : names)
      for (const std::string& pattern : {pattern_from(components(name), 0, 0), name}) {
        const size_t count = values_meant(pattern, value, layout);
        if (count > most || (count == most && count > 0 && pattern.size() < best.size()))
          std::tie(best, most) = std::pair(pattern, count);
      }
    if (most == 0) return false;
    pins_.values.push_back({best, layout});
    return true;
  }
  /// None unless the value is among them and all are to be held so.
  size_t values_meant(const std::string& pattern, ValueId value, const Layout& layout) const {
    const auto all = meant({{}, {{pattern, layout}}, {}});
    const bool is_right = all && all->values.contains(value) &&
                          std::ranges::all_of(all->values, [&](const auto& pin) {
                            const auto own = settled(pin.first);
                            return !own || own == layout;
                          });
    return is_right ? all->values.size() : 0;
  }

  void leave_out_needless() {
    const auto is_vector = [&](const Pin& pin) {
      const auto all = meant({{pin}, {}, {}});
      return std::ranges::all_of(all->tensors, [&](const auto& each) {
        return graph_.tensors[each.first].sizes.size() < 2;
      });
    };
    std::stable_partition(pins_.parameters.begin(), pins_.parameters.end(), std::not_fn(is_vector));
    for (auto* pins : {&pins_.parameters, &pins_.values})
      for (size_t i = pins->size(); i-- > 0;) {
        const Pin pin = (*pins)[i];
        pins->erase(pins->begin() + static_cast<std::ptrdiff_t>(i));
        if (!same_layouts(completed(pins_), chosen_))
          pins->insert(pins->begin() + static_cast<std::ptrdiff_t>(i), pin);
      }
  }

  const Graph& graph_;
  const int64_t microbatches_;
  const FirstOutput first_;
  const Completion chosen_;
  Pins pins_;
};

}  // namespace

Pins pins_of(const Graph& graph, const Pins& asked, int64_t batch, int parts, int64_t microbatches,
             FirstOutput first) {
  return Chooser(graph, asked, batch, parts, microbatches, first).run().value_or(asked);
}

}  // namespace penstock::sharding
