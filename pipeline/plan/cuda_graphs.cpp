#include "pipeline/plan/cuda_graphs.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace penstock {

CudaGraphs parse_cuda_graphs(const std::string& text, const std::string& place) {
  if (text.empty() || text == "auto") return CudaGraphs::automatic;
  if (text == "on") return CudaGraphs::always;
  if (text == "off") return CudaGraphs::never;
  throw InputError(place, fmt::format("`{}` is none of auto, on, off", text),
                   "Use auto, on or off.");
}

}  // namespace penstock
