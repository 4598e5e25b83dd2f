#include "cli/show/fx.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace penstock::cli {

namespace {

/// By their numbers in torch.export's schema.
constexpr std::array memory_formats = {"unknown", "contiguous_format", "channels_last",
                                       "channels_last_3d", "preserve_format"};
constexpr std::array layouts = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};

template <typename Names>
std::string torch_name(const Names& names, int number) {
  return fmt::format("torch.{}", names.at(static_cast<size_t>(number)));
}

/// One argument, as Python's str() has it.
struct Printer {
  const Graph& model;

  std::string operator()(None) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return fmt::to_string(value); }
  std::string operator()(double value) const {
    const std::string text = fmt::to_string(value);
    return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(std::complex<double> value) const {
    return fmt::format("({}{:+}j)", value.real(), value.imag());
  }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const Expression& value) const { return value.str(); }
  std::string operator()(DType value) const { return fmt::format("torch.{}", name(value)); }
  std::string operator()(MemoryFormat format) const {
    return torch_name(memory_formats, format.schema_value);
  }
  std::string operator()(Layout layout) const { return torch_name(layouts, layout.schema_value); }
  std::string operator()(const Device& device) const { return device.type; }
  std::string operator()(TensorRef reference) const {
    return "%" + model.values[static_cast<size_t>(reference.value)].name;
  }
  std::string operator()(const TensorList& list) const {
    std::vector<std::string> parts;
    for (const auto& value : list.values)
      parts.push_back(value ? (*this)(TensorRef{*value}) : (*this)(None{}));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  template <typename Element>
  std::string operator()(const std::vector<Element>& list) const {
    std::vector<std::string> parts;
    parts.reserve(list.size());
    for (const Element& element : list) parts.push_back((*this)(element));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
};

/// `aten::linear` is `torch.ops.aten.linear.default`.
std::string target(const Operator& op) {
  const size_t colons = op.target.find("::");
  return fmt::format("torch.ops.{}.{}.{}", op.target.substr(0, colons),
                     op.target.substr(colons + 2), op.overload.empty() ? "default" : op.overload);
}

std::string call(const std::string& target, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& named) {
  return fmt::format("call_function[target={}](args = {}, kwargs = {{{}}})", target,
                     tuple(arguments), fmt::join(named, ", "));
}

}  // namespace

std::string tuple(const std::vector<std::string>& parts) {
  return fmt::format("({}{})", fmt::join(parts, ", "), parts.size() == 1 ? "," : "");
}

std::string fx_call(const Graph& model, const Operator& op) {
  const Printer print{model};
  std::vector<std::string> positional, named;
  for (const Argument& argument : op.arguments) {
    std::string text = std::visit(print, argument.value);
    if (argument.keyword) {
      named.push_back(argument.name + ": " + text);
    } else {
      positional.push_back(std::move(text));
    }
  }
  return call(target(op), positional, named);
}

std::string fx_getitem(const Operator& op, size_t output) {
  return call("operator.getitem", {"%" + op.name, fmt::to_string(output)}, {});
}

}  // namespace penstock::cli
