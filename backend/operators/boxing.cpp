#include "backend/operators/boxing.hpp"

#include <ATen/ScalarOps.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "backend/operators/dtype.hpp"

namespace penstock {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

[[noreturn]] void mismatch(const c10::Type& type) {
  throw std::invalid_argument("the export gives a value that the schema's type " + type.str() +
                              " does not take");
}

at::Scalar to_scalar(const Expression::Number& number) {
  return std::visit([](auto value) { return at::Scalar(value); }, number);
}

/// A number as a Scalar argument takes it.
at::Scalar scalar(const ArgumentValue& value, const c10::Type& type, int64_t batch) {
  return std::visit(
      Overloaded{[](bool v) { return at::Scalar(v); }, [](int64_t v) { return at::Scalar(v); },
                 [](double v) { return at::Scalar(v); },
                 [](std::complex<double> v) { return at::Scalar(c10::complex<double>(v)); },
                 [&](const Expression& v) { return to_scalar(v.evaluate(batch)); },
                 [&](const auto&) -> at::Scalar { mismatch(type); }},
      value);
}

at::MemoryFormat memory_format(int schema_value) {
  static constexpr std::array formats{at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                      at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
  if (schema_value < 1 || schema_value > 4) throw std::invalid_argument("unknown memory format");
  return formats[static_cast<size_t>(schema_value - 1)];
}

at::Layout layout(int schema_value) {
  static constexpr std::array layouts{at::kSparse,    at::kSparseCsr, at::kSparseCsc,
                                      at::kSparseBsr, at::kSparseBsc, at::kMkldnn,
                                      at::kStrided};
  if (schema_value < 1 || schema_value > 7) throw std::invalid_argument("unknown layout");
  return layouts[static_cast<size_t>(schema_value - 1)];
}

/// Integers, and the enums that the dispatcher passes as integers.
int64_t integer(const ArgumentValue& value, const c10::Type& type, int64_t batch) {
  return std::visit(
      Overloaded{[](bool v) { return int64_t{v}; }, [](int64_t v) { return v; },
                 [&](const Expression& v) { return v.at(batch); },
                 [](DType v) { return static_cast<int64_t>(scalar_type(v)); },
                 [](MemoryFormat v) { return static_cast<int64_t>(memory_format(v.schema_value)); },
                 [](Layout v) { return static_cast<int64_t>(layout(v.schema_value)); },
                 [&](const auto&) -> int64_t { mismatch(type); }},
      value);
}

c10::IValue tensor(const ArgumentValue& value, const c10::Type& type,
                   const BoxingContext& context) {
  if (const auto* ref = std::get_if<TensorRef>(&value)) return (*context.values)[ref->value];
  if (std::holds_alternative<None>(value)) return at::Tensor();
  return at::native::wrapped_scalar_tensor(scalar(value, type, context.batch));
}

/// Calls `add` with each element of a list, as an ArgumentValue; a plain value is a list of one.
template <class Add>
void for_each_element(const ArgumentValue& value, Add add) {
  std::visit(Overloaded{[&](const std::vector<Expression>& list) {
                          for (const auto& e : list) add(e);
                        },
                        [&](const std::vector<double>& list) {
                          for (const double e : list) add(e);
                        },
                        [&](const std::vector<bool>& list) {
                          for (const bool e : list) add(e);
                        },
                        [&](const std::vector<std::string>& list) {
                          for (const auto& e : list) add(e);
                        },
                        [&](const TensorList& list) {
                          for (const auto& e : list.values) {
                            add(e ? ArgumentValue(TensorRef{*e}) : ArgumentValue(None{}));
                          }
                        },
                        [&](const auto& single) { add(single); }},
             value);
}

c10::IValue list(const ArgumentValue& value, const c10::Type& type, const BoxingContext& context) {
  const c10::TypePtr& element = type.castRaw<c10::ListType>()->getElementType();
  c10::impl::GenericList boxed(element);
  for_each_element(value,
                   [&](const ArgumentValue& e) { boxed.push_back(box(e, *element, context)); });
  return boxed;
}

}  // namespace

c10::IValue box(const ArgumentValue& value, const c10::Type& type, const BoxingContext& context) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      if (std::holds_alternative<None>(value)) return {};
      return box(value, *type.castRaw<c10::OptionalType>()->getElementType(), context);
    case c10::TypeKind::TensorType: return tensor(value, type, context);
    case c10::TypeKind::ListType: return list(value, type, context);
    case c10::TypeKind::IntType: return integer(value, type, context.batch);
    case c10::TypeKind::FloatType: return scalar(value, type, context.batch).toDouble();
    case c10::TypeKind::BoolType: return scalar(value, type, context.batch).toBool();
    case c10::TypeKind::NumberType: return scalar(value, type, context.batch);
    case c10::TypeKind::DeviceObjType: return context.device;
    case c10::TypeKind::StringType:
      if (const auto* text = std::get_if<std::string>(&value)) return *text;
      mismatch(type);
    default: mismatch(type);
  }
}

bool is_dynamic(const ArgumentValue& value) {
  const auto on_batch = [](const Expression& e) { return e.depends_on_batch(); };
  return std::visit(
      Overloaded{[](const TensorRef&) { return true; }, [](const TensorList&) { return true; },
                 [&](const Expression& e) { return on_batch(e); },
                 [&](const std::vector<Expression>& list) {
                   return std::any_of(list.begin(), list.end(), on_batch);
                 },
                 [](const auto&) { return false; }},
      value);
}

}  // namespace penstock
