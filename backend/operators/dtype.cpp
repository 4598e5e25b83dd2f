#include "backend/operators/dtype.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock {

namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 21> kTypes{{
    {DType::uint8, at::kByte},
    {DType::int8, at::kChar},
    {DType::int16, at::kShort},
    {DType::int32, at::kInt},
    {DType::int64, at::kLong},
    {DType::float16, at::kHalf},
    {DType::float32, at::kFloat},
    {DType::float64, at::kDouble},
    {DType::complex32, at::kComplexHalf},
    {DType::complex64, at::kComplexFloat},
    {DType::complex128, at::kComplexDouble},
    {DType::boolean, at::kBool},
    {DType::bfloat16, at::kBFloat16},
    {DType::uint16, at::kUInt16},
    {DType::float8_e4m3fn, at::kFloat8_e4m3fn},
    {DType::float8_e5m2, at::kFloat8_e5m2},
    {DType::float8_e4m3fnuz, at::kFloat8_e4m3fnuz},
    {DType::float8_e5m2fnuz, at::kFloat8_e5m2fnuz},
    {DType::float8_e8m0fnu, at::kFloat8_e8m0fnu},
    {DType::uint32, at::kUInt32},
    {DType::uint64, at::kUInt64},
}};

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  throw std::invalid_argument("LibTorch has no dtype " + std::string(name(dtype)));
}

DType dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw std::invalid_argument(std::string("no dtype for ") + c10::toString(type));
}

}  // namespace penstock
