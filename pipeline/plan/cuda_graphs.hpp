// When a GPU replays its steps as CUDA graphs.
#pragma once

#include <string>

namespace penstock {

/// Where that is faster, in any case, or not.
enum class CudaGraphs { automatic, always, never };

/// Parses `auto` (also if nothing is said), `on` and `off`. Throws InputError at `place` for
/// others.
CudaGraphs parse_cuda_graphs(const std::string& text, const std::string& place);

}  // namespace penstock
