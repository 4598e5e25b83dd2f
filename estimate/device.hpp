// The figures that a device's maker gives, and the share of them that classes of operators reach:
// configs/devices/*.yaml. docs/files.md describes the file.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "graph/operators/table.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// `gemm`, as a device file names it.
std::string_view name(OperatorClass kind);

/// One number per class.
using PerClass = std::array<double, operator_classes>;

struct DeviceSpec {
  std::string path, name, kind;  // kind: `cpu` or `cuda`
  int64_t memory_bytes = 0;
  int64_t reserved_bytes = 0;  // before a stage is loaded: context, libraries
  double bandwidth = 0;        // of its memory, bytes per second
  std::map<DType, double> matrix_flops, vector_flops;  // per second, dense
  double launch_s = 0;                                 // of each operator that does anything
  double action_s = 0;                                 // of each action
  PerClass efficiency{};        // share of the peak or of the bandwidth, whichever limits
  std::vector<LinkCost> links;  // to other devices of the same kind, the usual one first

  /// FLOPs per second of a class at a type. Vector units without a figure of their own compute in
  /// float32. Throws InputError, place: the file, where there is no figure for matrix products.
  double peak(OperatorClass of, DType dtype) const;
};

/// Throws InputError naming file, line, value and cure.
DeviceSpec read_device_spec(const std::filesystem::path& path);
/// The same from the file's text.
DeviceSpec parse_device_spec(const std::string& text, const std::filesystem::path& path);

}  // namespace penstock
