// Element types, numbered as torch.export's schema numbers them (not as c10 does).
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

enum class DType {
  unknown = 0,
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  complex32 = 9,
  complex64 = 10,
  complex128 = 11,
  boolean = 12,
  bfloat16 = 13,
  uint16 = 28,
  float8_e4m3fn = 29,
  float8_e5m2 = 30,
  float8_e4m3fnuz = 31,
  float8_e5m2fnuz = 32,
  float8_e8m0fnu = 33,  // these from torch 2.15 on
  uint32 = 34,
  uint64 = 35
};

/// Bytes of one element.
int64_t size_bytes(DType dtype);
/// True for real and complex floating-point types: the ones that can carry a gradient.
bool is_floating(DType dtype);
/// `float32`, as PyTorch prints it.
std::string_view name(DType dtype);
/// The name that a .safetensors header uses (`F32`).
std::string_view safetensors_name(DType dtype);
/// The inverse; DType::unknown for a name that is not known.
DType from_safetensors_name(std::string_view name);

}  // namespace penstock
