// When a GPU replays its steps as CUDA graphs.
#pragma once

#include <string>

namespace penstock {

/// Whether steps are replayed as CUDA graphs: where that is faster, in any case, never.
enum class CudaGraphs { automatic, always, never };

/// Is a step close enough to launch-bound that replaying it may be faster? Its host takes
/// `issued_s` to issue work that takes `run_s` in all.
inline bool worth_capturing(double issued_s, double run_s) { return issued_s >= run_s / 2; }

/// Parses `auto` (also if nothing is said), `on` and `off`. Throws InputError at `place` for
/// others.
CudaGraphs parse_cuda_graphs(const std::string& text, const std::string& place);

}  // namespace penstock
