// The instructions that oneDNN may use for bfloat16. Some virtual machines report AMX and trap on
// the kernels that use it, so a worker of its own tries one product, once a boot; the environment
// variable ONEDNN_MAX_CPU_ISA overrides the answer.
#pragma once

#include "graph/graph.hpp"

namespace penstock::cli {

inline constexpr const char* kOnednnVariable = "ONEDNN_MAX_CPU_ISA";

/// Call it before workers start that compute on the CPU: where the model has bfloat16 and the
/// processor needs a limit, sets the variable, which they inherit, and says so in one line unless
/// `quiet`. Throws InputError where penstock-worker is not beside this program.
void limit_onednn(const Graph& model, bool quiet);

}  // namespace penstock::cli
