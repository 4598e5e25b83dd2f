// `--sweep KEY=V1,V2,…`: what is planned again for each of some values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"
#include "planner/layouts/request.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::cli {

/// Combinations of values, each of which is planned.
inline constexpr int64_t max_combinations = 100;

/// The input of a plan, without the model.
struct PlanCase {
  Profile profile;
  std::optional<Cluster> cluster;
  PlanRequest request;
};

struct SweepValue {
  std::string text;  // as typed
  /// Throws InputError where the rest of the case does not allow it.
  std::function<void(PlanCase&)> change;
};

struct SweepAxis {
  std::string key;
  std::string flag;     // of `plan`, that says the same; "": there is none,
  std::string in_file;  // and a plan with such a value takes this
  bool counts = false;  // values are whole numbers
  int turn = 0;         // changes of lower ones come first
  std::vector<SweepValue> values;
};

/// Takes `KEY=V1,V2,…`s. Keys are flags of `plan`, keys of `--set` (inputs/overrides.hpp),
/// `bandwidth` for `links.bandwidth`, `global_batch`, and `device` with files; these are read, and
/// the model has to stay there for as long as the values. Throws InputError, place `--sweep` with
/// the key, for another form, a key or a value given twice or of no meaning for the base, and for
/// too many combinations.
std::vector<SweepAxis> sweep_axes(const std::vector<std::string>& given, const PlanCase& base,
                                  const Graph& model);

}  // namespace penstock::cli
