// The arguments of a worker's task whose command is `state_dict`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

struct StateDictTask {
  std::string plan;        // path
  std::string checkpoint;  // its folder, "" for none
  std::string output;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StateDictTask, plan, checkpoint, output)

}  // namespace penstock
