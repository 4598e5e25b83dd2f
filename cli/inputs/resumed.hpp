// The beginning of a run: its first step, or the one that a checkpoint goes on with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/inputs/execute_check.hpp"

namespace penstock::cli {

struct RunBegin {
  int64_t step = 0;
  std::string checkpoint;        // that has the state before it; "" for none
  std::vector<int64_t> damaged;  // later steps of its folder
  std::vector<std::string> notes;
};

/// --resume names the folder of --save: a run may begin with it as well as go on.
bool may_begin(const ExecuteOptions& options);

/// The newest intact checkpoint of --resume, from which the run goes on; its first step where it
/// may begin and there is none yet. Throws InputError.
RunBegin find_begin(const ExecuteOptions& options, const CheckedRun& checked);

}  // namespace penstock::cli
