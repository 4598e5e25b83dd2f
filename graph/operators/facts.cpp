#include "graph/operators/facts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace penstock {
namespace {

/// Sorted at compile time, so that the lists below can be ordered for the reader.
template <size_t count>
consteval auto names(const std::string_view (&list)[count]) {
  std::array<std::string_view, count> sorted = std::to_array(list);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

constexpr std::array views = names(
    {"alias", "view", "view_as", "_unsafe_view", "_reshape_alias", "as_strided", "detach",
     "positive",
     // another shape
     "reshape", "reshape_as", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "unfold",
     // another order
     "t", "transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT",
     "mH", "adjoint", "matrix_H",
     // repeated
     "expand", "expand_as", "broadcast_to",
     // parts
     "select", "slice", "narrow", "diagonal", "chunk", "split", "split_with_sizes", "tensor_split",
     "hsplit", "vsplit", "dsplit", "unbind", "real", "imag", "view_as_real", "view_as_complex"});

constexpr std::array random_always =
    names({"bernoulli",   "cauchy",        "exponential",       "geometric", "log_normal",
           "multinomial", "normal",        "normal_functional", "poisson",   "rand",
           "rand_like",   "randint",       "randint_like",      "randn",     "randn_like",
           "random",      "randperm",      "_standard_gamma",   "binomial",  "_sample_dirichlet",
           "uniform",     "_fused_dropout"});

constexpr std::array assertions =
    names({"_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_functional_assert_async",
           "_functional_assert_scalar", "_functional_sym_constrain_range",
           "_functional_sym_constrain_range_for_size", "_print", "sym_constrain_range",
           "sym_constrain_range_for_size"});

constexpr std::array gradient_stops = names({"detach",       "detach_copy",
                                             "zeros_like",   "ones_like",
                                             "full_like",    "empty_like",
                                             "rand_like",    "randn_like",
                                             "randint_like", "new_zeros",
                                             "new_ones",     "new_full",
                                             "new_empty",    "new_empty_strided",
                                             "eq",           "ne",
                                             "lt",           "le",
                                             "gt",           "ge",
                                             "isnan",        "isinf",
                                             "isfinite",     "isin",
                                             "isclose",      "logical_and",
                                             "logical_or",   "logical_not",
                                             "logical_xor",  "argmax",
                                             "argmin",       "argsort",
                                             "bucketize",    "searchsorted",
                                             "one_hot",      "floor_divide",
                                             "histc",        "multinomial",
                                             "nonzero",      "signbit"});

/// Only the first output passes gradients; the others are statistics for the backward.
constexpr std::array first_output_only = names({"_native_batch_norm_legit",
                                                "_native_batch_norm_legit_functional",
                                                "_native_batch_norm_legit_no_training",
                                                "_batch_norm_with_update",
                                                "_batch_norm_with_update_functional",
                                                "_batch_norm_no_update",
                                                "_batch_norm_impl_index",
                                                "native_batch_norm",
                                                "cudnn_batch_norm",
                                                "native_layer_norm",
                                                "_fused_rms_norm",
                                                "native_group_norm",
                                                "native_dropout",
                                                "_scaled_dot_product_flash_attention",
                                                "_scaled_dot_product_flash_attention_for_cpu",
                                                "_scaled_dot_product_efficient_attention",
                                                "_scaled_dot_product_cudnn_attention",
                                                "_flash_attention_forward",
                                                "_efficient_attention_forward",
                                                "nll_loss_forward",
                                                "nll_loss2d_forward",
                                                "_embedding_bag",
                                                "batch_norm_stats",
                                                "_weight_norm_interface"});

/// Write to running statistics unless they are told to leave them alone.
struct Statistics {
  std::string_view name;
  const char* switch_name;
};
constexpr Statistics statistics[] = {
    {"batch_norm", "training"},
    {"native_batch_norm", "training"},
    {"cudnn_batch_norm", "training"},
    {"miopen_batch_norm", "training"},
    {"_batch_norm_impl_index", "training"},
    {"_native_batch_norm_legit", "training"},
    {"instance_norm", "use_input_stats"},
};

/// Random if the probability is positive and the operator trains.
struct Dropout {
  std::string_view name;
  const char* probability;
  double probability_otherwise;
  const char* train;
  bool train_otherwise;
};
constexpr Dropout dropouts[] = {
    {"dropout", "p", 0.5, "train", true},
    {"native_dropout", "p", 0.5, "train", true},
    {"alpha_dropout", "p", 0.5, "train", true},
    {"feature_dropout", "p", 0.5, "train", true},
    {"feature_alpha_dropout", "p", 0.5, "train", true},
    {"scaled_dot_product_attention", "dropout_p", 0, "", true},
    {"_scaled_dot_product_flash_attention", "dropout_p", 0, "", true},
    {"_scaled_dot_product_flash_attention_for_cpu", "dropout_p", 0, "", true},
    {"_scaled_dot_product_efficient_attention", "dropout_p", 0, "", true},
    {"_scaled_dot_product_cudnn_attention", "dropout_p", 0, "", true},
    {"lstm", "dropout", 0, "train", false},
    {"gru", "dropout", 0, "train", false},
    {"rnn_tanh", "dropout", 0, "train", false},
    {"rnn_relu", "dropout", 0, "train", false},
    {"rrelu", "", 1, "training", false},
    {"rrelu_with_noise", "", 1, "training", false},
    {"rrelu_with_noise_functional", "", 1, "training", false},
};

/// The name without the namespace, or empty outside `aten` and `prims`.
std::string_view aten_name(const Operator& op) {
  const std::string_view target = op.target;
  for (const std::string_view prefix : {"aten::", "prims::"})
    if (target.starts_with(prefix)) return target.substr(prefix.size());
  return {};
}

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::binary_search(list.begin(), list.end(), name);
}

}  // namespace

bool is_view(const Operator& op) { return contains(views, aten_name(op)); }

bool is_random(const Operator& op) {
  const std::string_view name = aten_name(op);
  if (contains(random_always, name)) return true;
  for (const Dropout& dropout : dropouts)
    if (dropout.name == name)
      return number(op, dropout.probability, dropout.probability_otherwise) > 0 &&
             flag(op, dropout.train, dropout.train_otherwise);
  return false;
}

bool is_assertion(const Operator& op) { return contains(assertions, aten_name(op)); }

bool stops_gradient(const Operator& op) { return contains(gradient_stops, aten_name(op)); }

bool stops_gradient(const Operator& op, size_t output) {
  return stops_gradient(op) || (output > 0 && contains(first_output_only, aten_name(op)));
}

bool is_mutating(const Operator& op) {
  const std::string_view name = aten_name(op);
  if (op.overload == "out" || op.overload.ends_with("_out")) return true;
  if (op.target.ends_with('_') && !op.target.ends_with("__")) return true;
  if (name.starts_with("__i") && name.ends_with("__") && name != "__invert__") return true;
  for (const Statistics& entry : statistics) {
    if (entry.name != name || op.overload.starts_with("no_stats")) continue;
    const ArgumentValue* mean = argument(op, "running_mean");
    return mean && std::holds_alternative<TensorRef>(*mean) && flag(op, entry.switch_name, true);
  }
  return false;
}

std::string full_name(const Operator& op) {
  return op.overload.empty() ? op.target : op.target + "." + op.overload;
}

const ArgumentValue* argument(const Operator& op, const std::string& name) {
  for (const Argument& candidate : op.arguments)
    if (candidate.name == name) return &candidate.value;
  return nullptr;
}

double number(const Operator& op, const std::string& name, double otherwise) {
  const ArgumentValue* value = argument(op, name);
  if (!value) return otherwise;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return otherwise;
}

bool flag(const Operator& op, const std::string& name, bool otherwise) {
  const ArgumentValue* value = argument(op, name);
  const bool* truth = value ? std::get_if<bool>(value) : nullptr;
  return truth ? *truth : otherwise;
}

}  // namespace penstock
