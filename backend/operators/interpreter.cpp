#include "backend/operators/interpreter.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <stdexcept>

#include "backend/device/out_of_memory.hpp"
#include "backend/operators/boxing.hpp"
#include "backend/operators/dtype.hpp"
#include "backend/operators/gathered_again.hpp"
#include "base/error.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock {
namespace {

/// A view of a value whose strides differ from the export's (it was received, hence contiguous)
/// may need a copy: `reshape` has the same arguments and copies where it must.
const char* kernel_name(const Operator& op) {
  const bool plain_view =
      op.overload.empty() && (op.target == "aten::view" || op.target == "aten::_unsafe_view");
  return plain_view ? "aten::reshape" : op.target.c_str();
}

c10::OperatorHandle find(const Graph& graph, const Operator& op) {
  const auto found = c10::Dispatcher::singleton().findSchema({kernel_name(op), op.overload});
  if (found) return *found;
  throw InputError(
      graph.path, "LibTorch does not have the operator " + describe(op),
      "export it with tools/export_model.py --decompose, or by torch operators in the model");
}

size_t position_of(const Graph& graph, const Operator& op, const Argument& argument, size_t index,
                   const c10::FunctionSchema& schema) {
  if (argument.name.empty() && index < schema.arguments().size()) return index;
  const bool renamed = argument.name == "size" && schema.name() == "aten::reshape";
  const auto position = schema.argumentIndexWithName(renamed ? "shape" : argument.name);
  if (position) return static_cast<size_t>(*position);
  throw InputError(graph.path,
                   describe(op) + " has an argument `" + argument.name +
                       "` that LibTorch's schema does not know",
                   "export it with torch 2.11");
}

void append_values(const ArgumentValue& value, std::vector<ValueId>& values) {
  if (const auto* ref = std::get_if<TensorRef>(&value)) values.push_back(ref->value);
  if (const auto* list = std::get_if<TensorList>(&value)) {
    for (const auto& element : list->values) {
      if (element) values.push_back(*element);
    }
  }
}

/// Enables autocast while it lives, without its cache: each use of a parameter has a gradient of
/// its own.
class AutocastGuard {
 public:
  AutocastGuard(at::DeviceType device, at::ScalarType type)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        cached_(at::autocast::is_autocast_cache_enabled()),
        type_(at::autocast::get_autocast_dtype(device)) {
    set(true, false, type);
  }
  ~AutocastGuard() { set(enabled_, cached_, type_); }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  void set(bool enabled, bool cached, at::ScalarType type) {
    at::autocast::set_autocast_enabled(device_, enabled);
    at::autocast::set_autocast_cache_enabled(cached);
    at::autocast::set_autocast_dtype(device_, type);
  }

  at::DeviceType device_;
  bool enabled_, cached_;
  at::ScalarType type_;
};

}  // namespace

std::string describe(const Operator& op) {
  const std::string module = op.modules.empty() ? "" : " in " + op.modules.back();
  return full_name(op) + " (" + op.name + ")" + module;
}

PreparedOperator::PreparedOperator(const Graph& graph, const Operator& op, at::Device device)
    : op_(&op),
      device_(device),
      handle_(find(graph, op)),
      random_(is_random(op)),
      is_product_(traits_of(op).saved == OperatorTraits::Saved::factors) {
  const auto& schema = handle_.schema();
  std::vector<bool> given(schema.arguments().size(), false);
  for (const c10::Argument& argument : schema.arguments()) {
    defaults_.push_back(argument.default_value().value_or(c10::IValue()));
  }
  for (size_t index = 0; index < op.arguments.size(); ++index) {
    const size_t position = position_of(graph, op, op.arguments[index], index, schema);
    given[position] = true;
    bind(graph, op.arguments[index], position);
  }
  check_complete(graph, given);
  place_factory(given);
  bind_autocast(graph);
  if (!writes_.empty() || !is_mutating(op)) return;
  for (const char* statistics : {"running_mean", "running_var"}) {
    if (const ArgumentValue* value = argument(op, statistics)) append_values(*value, writes_);
  }
}

bool PreparedOperator::returns_written() const {
  const auto& returns = handle_.schema().returns();
  const c10::AliasInfo* alias = returns.empty() ? nullptr : returns[0].alias_info();
  return alias != nullptr && alias->isWrite();
}

void PreparedOperator::bind(const Graph& graph, const Argument& argument, size_t position) {
  const c10::Argument& formal = handle_.schema().arguments()[position];
  if (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) {
    append_values(argument.value, writes_);
  }
  if (is_dynamic(argument.value)) {
    bound_.push_back({position, &argument.value});
    return;
  }
  try {
    defaults_[position] = box(argument.value, *formal.type(), {.device = device_});
  } catch (const std::exception& error) {
    throw InputError(graph.path,
                     describe(*op_) + ", argument `" + formal.name() + "`: " + error.what(),
                     "export it with torch 2.11");
  }
}

/// An operator that makes a tensor from none makes it on the CPU unless a device is named; the CPU
/// of an export stands for any device.
void PreparedOperator::place_factory(const std::vector<bool>& given) {
  const auto& formals = handle_.schema().arguments();
  const auto is_tensor = [](const c10::Argument& formal) {
    return formal.type()->isSubtypeOf(*c10::TensorType::get()) ||
           formal.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  if (std::any_of(formals.begin(), formals.end(), is_tensor)) return;
  for (size_t position = 0; position < formals.size(); ++position) {
    if (!given[position] && formals[position].name() == "device") defaults_[position] = device_;
  }
}

void PreparedOperator::bind_autocast(const Graph& graph) {
  if (!op_->autocast) return;
  const std::string& name = op_->autocast->device;
  try {
    const at::DeviceType device = name == "cpu" ? device_.type() : at::Device(name).type();
    autocast_ = Region{device, op_->autocast->dtype ? scalar_type(*op_->autocast->dtype)
                                                    : at::autocast::get_autocast_dtype(device)};
  } catch (const c10::Error&) {
    throw InputError(graph.path, describe(*op_) + " runs under autocast for `" + name + "`",
                     "export it with tools/export_model.py, which turns autocast into casts");
  }
}

void PreparedOperator::check_complete(const Graph& graph, const std::vector<bool>& given) const {
  const auto& formals = handle_.schema().arguments();
  for (size_t position = 0; position < formals.size(); ++position) {
    if (given[position] || formals[position].default_value()) continue;
    throw InputError(graph.path,
                     describe(*op_) + " lacks its argument `" + formals[position].name() + "`",
                     "export it with torch 2.11");
  }
}

void PreparedOperator::run(ValueTable& values, int64_t batch) const {
  std::optional<at::NoGradGuard> no_grad;
  if (!op_->grad_enabled) no_grad.emplace();
  std::optional<AutocastGuard> autocast;
  if (autocast_) autocast.emplace(autocast_->device, autocast_->type);
  try {
    std::vector<c10::IValue> stack = defaults_;
    const auto& formals = handle_.schema().arguments();
    for (const Bound& bound : bound_) {
      const c10::Type& type = *formals[bound.position].type();
      stack[bound.position] = input(*bound.value, type, values, batch);
    }
    const SavesParts saving(stack, is_product_);
    handle_.callBoxed(stack);
    store_results(stack, values);
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(describe(*op_) + ": " + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw std::runtime_error(describe(*op_) + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw std::runtime_error(describe(*op_) + ": " + error.what());
  }
}

/// Random kernels draw in the memory order of their inputs, so these are made contiguous.
c10::IValue PreparedOperator::input(const ArgumentValue& value, const c10::Type& type,
                                    ValueTable& values, int64_t batch) const {
  c10::IValue boxed = box(value, type, {&values, batch, device_});
  const bool draws = random_ && writes_.empty() && boxed.isTensor() && boxed.toTensor().defined();
  return draws ? c10::IValue(boxed.toTensor().contiguous()) : boxed;
}

void PreparedOperator::store_results(const std::vector<c10::IValue>& results,
                                     ValueTable& values) const {
  size_t next = 0;
  const auto store = [&](const at::Tensor& tensor) {
    const ValueId value = next < op_->outputs.size() ? op_->outputs[next] : -1;
    if (value >= 0) values[static_cast<size_t>(value)] = tensor;
    ++next;
  };
  for (const c10::IValue& result : results) {
    if (result.isTensor()) {
      store(result.toTensor());
    } else if (result.isTensorList()) {
      for (const at::Tensor& element : result.toTensorVector()) store(element);
    } else {
      ++next;
    }
  }
  if (next < op_->outputs.size()) {
    throw std::runtime_error("gave " + std::to_string(next) + " results, the export has " +
                             std::to_string(op_->outputs.size()));
  }
}

}  // namespace penstock
