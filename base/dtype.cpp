#include "base/dtype.hpp"

#include <array>

namespace penstock {
namespace {

struct Row {
  DType dtype;
  int64_t size_bytes;
  bool floating;
  std::string_view name, safetensors;
};

/// The unknown type first, so that it is what an unlisted number gives.
constexpr std::array dtype_rows = {
    Row{DType::unknown, 0, false, "unknown", ""},
    Row{DType::uint8, 1, false, "uint8", "U8"},
    Row{DType::int8, 1, false, "int8", "I8"},
    Row{DType::int16, 2, false, "int16", "I16"},
    Row{DType::int32, 4, false, "int32", "I32"},
    Row{DType::int64, 8, false, "int64", "I64"},
    Row{DType::float16, 2, true, "float16", "F16"},
    Row{DType::float32, 4, true, "float32", "F32"},
    Row{DType::float64, 8, true, "float64", "F64"},
    Row{DType::complex32, 4, true, "complex32", ""},
    Row{DType::complex64, 8, true, "complex64", "C64"},
    Row{DType::complex128, 16, true, "complex128", ""},
    Row{DType::boolean, 1, false, "bool", "BOOL"},
    Row{DType::bfloat16, 2, true, "bfloat16", "BF16"},
    Row{DType::uint16, 2, false, "uint16", "U16"},
    Row{DType::float8_e4m3fn, 1, true, "float8_e4m3fn", "F8_E4M3"},
    Row{DType::float8_e5m2, 1, true, "float8_e5m2", "F8_E5M2"},
    Row{DType::float8_e4m3fnuz, 1, true, "float8_e4m3fnuz", ""},
    Row{DType::float8_e5m2fnuz, 1, true, "float8_e5m2fnuz", ""},
    Row{DType::float8_e8m0fnu, 1, true, "float8_e8m0fnu", "F8_E8M0"},
    Row{DType::uint32, 4, false, "uint32", "U32"},
    Row{DType::uint64, 8, false, "uint64", "U64"},
};

const Row& row(DType dtype) {
  for (const Row& candidate : dtype_rows)
    if (candidate.dtype == dtype) return candidate;
  return dtype_rows.front();
}

}  // namespace

int64_t size_bytes(DType dtype) { return row(dtype).size_bytes; }
bool is_floating(DType dtype) { return row(dtype).floating; }
std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors; }

DType from_safetensors_name(std::string_view name) {
  for (const Row& candidate : dtype_rows)
    if (!name.empty() && candidate.safetensors == name) return candidate.dtype;
  return DType::unknown;
}

}  // namespace penstock
