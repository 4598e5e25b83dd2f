#include "base/dtype.hpp"

#include <array>

namespace penstock {
namespace {

struct DTypeRow {
  DType dtype;
  int64_t size_bytes;
  bool floating;
  std::string_view name, safetensors;
};

/// The unknown type comes first, so that an unlisted number gives it.
constexpr std::array dtype_rows = {
    DTypeRow{DType::unknown, 0, false, "unknown", ""},
    DTypeRow{DType::uint8, 1, false, "uint8", "U8"},
    DTypeRow{DType::int8, 1, false, "int8", "I8"},
    DTypeRow{DType::int16, 2, false, "int16", "I16"},
    DTypeRow{DType::int32, 4, false, "int32", "I32"},
    DTypeRow{DType::int64, 8, false, "int64", "I64"},
    DTypeRow{DType::float16, 2, true, "float16", "F16"},
    DTypeRow{DType::float32, 4, true, "float32", "F32"},
    DTypeRow{DType::float64, 8, true, "float64", "F64"},
    DTypeRow{DType::complex32, 4, true, "complex32", ""},
    DTypeRow{DType::complex64, 8, true, "complex64", "C64"},
    DTypeRow{DType::complex128, 16, true, "complex128", ""},
    DTypeRow{DType::boolean, 1, false, "bool", "BOOL"},
    DTypeRow{DType::bfloat16, 2, true, "bfloat16", "BF16"},
    DTypeRow{DType::uint16, 2, false, "uint16", "U16"},
    DTypeRow{DType::float8_e4m3fn, 1, true, "float8_e4m3fn", "F8_E4M3"},
    DTypeRow{DType::float8_e5m2, 1, true, "float8_e5m2", "F8_E5M2"},
    DTypeRow{DType::float8_e4m3fnuz, 1, true, "float8_e4m3fnuz", ""},
    DTypeRow{DType::float8_e5m2fnuz, 1, true, "float8_e5m2fnuz", ""},
    DTypeRow{DType::float8_e8m0fnu, 1, true, "float8_e8m0fnu", "F8_E8M0"},
    DTypeRow{DType::uint32, 4, false, "uint32", "U32"},
    DTypeRow{DType::uint64, 8, false, "uint64", "U64"},
};

const DTypeRow& row(DType dtype) {
  for (const DTypeRow& candidate : dtype_rows)
    if (candidate.dtype == dtype) return candidate;
  return dtype_rows.front();
}

}  // namespace

int64_t size_bytes(DType dtype) { return row(dtype).size_bytes; }
bool is_floating(DType dtype) { return row(dtype).floating; }
std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors; }

DType from_safetensors_name(std::string_view name) {
  for (const DTypeRow& candidate : dtype_rows)
    if (!name.empty() && candidate.safetensors == name) return candidate.dtype;
  return DType::unknown;
}

}  // namespace penstock
