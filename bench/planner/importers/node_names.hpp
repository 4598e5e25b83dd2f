// Shared by the readers of other planners' graphs: nodes found by the names that a file gives
// them, and the mistakes that only the whole graph shows.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/model/dag.hpp"

namespace penstock {

/// Numbers nodes in the order of the file.
class NodeNames {
 public:
  /// Throws InputError at `place` for a name that was there before.
  void add(const std::string& name, std::string_view place);
  /// Throws InputError at `place` for a name that was not added.
  int find(const std::string& name, std::string_view place) const;
  int count() const { return static_cast<int>(names_.size()); }
  /// Throws InputError at `file` with some nodes of a cycle, if there is one.
  void refuse_cycles(const Dag& dag, std::string_view file) const;

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

}  // namespace penstock
