// The rules are those of tools/autograd/derivatives.yaml in PyTorch 2.11, by kind of operator.
#include "estimate/saved.hpp"

#include <algorithm>
#include <string_view>

#include "graph/operators/facts.hpp"

namespace penstock {

namespace {

/// What an operator keeps.
enum class Keeps {
  operands,   // what it reads of data: gelu, pow, …
  nothing,    // add, cat, …; of lookups and choices the positions
  result,     // softmax, relu, …
  factors,    // products: each factor where another one gets a gradient
  divisor,    // div: the divisor, and both where the divisor gets a gradient
  norm,       // its input, and mean and deviation of each row
  attention,  // query, key, value, result, and the log-sum-exp of each row
  mask,       // dropout: what it multiplied with
  positions,  // max pooling: its input, and where each maximum was
};

struct Rule {
  std::string_view target;
  Keeps keeps;
};

constexpr Rule rules[] = {
    {"aten::linear", Keeps::factors},
    {"aten::matmul", Keeps::factors},
    {"aten::mm", Keeps::factors},
    {"aten::bmm", Keeps::factors},
    {"aten::mv", Keeps::factors},
    {"aten::dot", Keeps::factors},
    {"aten::addmm", Keeps::factors},
    {"aten::baddbmm", Keeps::factors},
    {"aten::addbmm", Keeps::factors},
    {"aten::addmv", Keeps::factors},
    {"aten::bilinear", Keeps::factors},
    {"aten::conv1d", Keeps::factors},
    {"aten::conv2d", Keeps::factors},
    {"aten::conv3d", Keeps::factors},
    {"aten::conv_transpose1d", Keeps::factors},
    {"aten::conv_transpose2d", Keeps::factors},
    {"aten::conv_transpose3d", Keeps::factors},
    {"aten::convolution", Keeps::factors},
    {"aten::_convolution", Keeps::factors},
    {"aten::mul", Keeps::factors},
    {"aten::div", Keeps::divisor},
    {"aten::softmax", Keeps::result},
    {"aten::_softmax", Keeps::result},
    {"aten::log_softmax", Keeps::result},
    {"aten::_log_softmax", Keeps::result},
    {"aten::relu", Keeps::result},
    {"aten::sigmoid", Keeps::result},
    {"aten::tanh", Keeps::result},
    {"aten::exp", Keeps::result},
    {"aten::sqrt", Keeps::result},
    {"aten::rsqrt", Keeps::result},
    {"aten::reciprocal", Keeps::result},
    {"aten::layer_norm", Keeps::norm},
    {"aten::native_layer_norm", Keeps::norm},
    {"aten::rms_norm", Keeps::norm},
    {"aten::_fused_rms_norm", Keeps::norm},
    {"aten::group_norm", Keeps::norm},
    {"aten::native_group_norm", Keeps::norm},
    {"aten::batch_norm", Keeps::norm},
    {"aten::instance_norm", Keeps::norm},
    {"aten::native_batch_norm", Keeps::norm},
    {"aten::_native_batch_norm_legit", Keeps::norm},
    {"aten::_native_batch_norm_legit_functional", Keeps::norm},
    {"aten::_native_batch_norm_legit_no_training", Keeps::norm},
    {"aten::_batch_norm_with_update_functional", Keeps::norm},
    {"aten::scaled_dot_product_attention", Keeps::attention},
    {"aten::_scaled_dot_product_flash_attention", Keeps::attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", Keeps::attention},
    {"aten::_scaled_dot_product_efficient_attention", Keeps::attention},
    {"aten::_scaled_dot_product_cudnn_attention", Keeps::attention},
    {"aten::dropout", Keeps::mask},
    {"aten::native_dropout", Keeps::mask},
    {"aten::feature_dropout", Keeps::mask},
    {"aten::max_pool1d", Keeps::positions},
    {"aten::max_pool2d", Keeps::positions},
    {"aten::max_pool3d", Keeps::positions},
    {"aten::max_pool2d_with_indices", Keeps::positions},
    {"aten::add", Keeps::nothing},
    {"aten::sub", Keeps::nothing},
    {"aten::rsub", Keeps::nothing},
    {"aten::neg", Keeps::nothing},
    {"aten::sum", Keeps::nothing},
    {"aten::mean", Keeps::nothing},
    {"aten::cat", Keeps::nothing},
    {"aten::stack", Keeps::nothing},
    {"aten::clone", Keeps::nothing},
    {"aten::contiguous", Keeps::nothing},
    {"aten::_to_copy", Keeps::nothing},
    {"aten::to", Keeps::nothing},
    {"aten::repeat", Keeps::nothing},
    {"aten::roll", Keeps::nothing},
    {"aten::flip", Keeps::nothing},
    {"aten::constant_pad_nd", Keeps::nothing},
    {"aten::pad", Keeps::nothing},
    {"aten::embedding", Keeps::nothing},
    {"aten::index", Keeps::nothing},
    {"aten::index_select", Keeps::nothing},
    {"aten::gather", Keeps::nothing},
    {"aten::where", Keeps::nothing},
    {"aten::masked_fill", Keeps::nothing},
    {"aten::upsample_nearest2d", Keeps::nothing},
    {"aten::upsample_bilinear2d", Keeps::nothing},
};

Keeps rule_of(const Operator& op) {
  const auto found = std::ranges::find(rules, op.target, &Rule::target);
  return found == std::end(rules) ? Keeps::operands : found->keeps;
}

class Keeper {
 public:
  Keeper(const EstimateModel& model, const Operator& op, int64_t batch, bool cuda)
      : model_(model), op_(op), batch_(batch), cuda_(cuda), reads_(op.reads()) {}

  SavedForBackward run() {
    switch (rule_of(op_)) {
      case Keeps::nothing: break;
      case Keeps::operands: keep_data(); break;
      case Keeps::result: keep(op_.outputs.front()); break;
      case Keeps::factors: keep_factors(); break;
      case Keeps::divisor: keep_divisor(); break;
      case Keeps::norm:
        keep(reads_.front());
        keep_further(2 * rows() * statistic_bytes());
        break;
      case Keeps::attention:
        for (size_t i = 0; i < std::min<size_t>(reads_.size(), 3); ++i) keep(reads_[i]);
        keep(op_.outputs.front());
        keep_further(attention_rows() * statistic_bytes());
        break;
      case Keeps::mask: keep_further(output().elements(batch_) * mask_bytes()); break;
      case Keeps::positions:
        keep_data();
        keep_further(output().elements(batch_) * size_bytes(DType::int64));
        break;
    }
    for (const ValueId read : reads_)  // positions, conditions
      if (!is_floating(model_.value(read).dtype)) keep(read);
    return std::move(saved_);
  }

 private:
  const Value& output() const { return model_.value(op_.outputs.front()); }

  void keep(ValueId id) {
    if (id >= 0 && std::ranges::find(saved_.values, id) == saved_.values.end())
      saved_.values.push_back(id);
  }
  void keep_data() {
    for (const ValueId read : reads_)
      if (!model_.of_parameters(read)) keep(read);
  }
  /// The outputs after the first, or as many bytes where the operator hides them.
  void keep_further(int64_t bytes) {
    for (size_t i = 1; i < op_.outputs.size(); ++i) keep(op_.outputs[i]);
    if (op_.outputs.size() < 2) saved_.own_bytes += bytes;
  }

  ValueId tensor(const char* name) const {
    const ArgumentValue* found = argument(op_, name);
    const auto* ref = found ? std::get_if<TensorRef>(found) : nullptr;
    return ref ? ref->value : -1;
  }
  /// What is multiplied: not what is added.
  std::vector<ValueId> factors() const {
    const bool adds = op_.target.starts_with("aten::add") || op_.target.starts_with("aten::badd");
    const ValueId added = adds ? tensor("self") : tensor("bias");
    std::vector<ValueId> result = reads_;
    std::erase(result, added);
    return result;
  }
  void keep_factors() {
    const std::vector<ValueId> all = factors();
    for (const ValueId factor : all) {
      const bool squared = all.size() == 1 && argument(op_, "other") && tensor("other") == factor;
      const bool needed = std::ranges::any_of(all, [&](ValueId other) {
        return (other != factor || squared) && model_.requires_grad(other);
      });
      if (needed) keep(factor);
    }
  }
  void keep_divisor() {
    const ValueId dividend = tensor("self"), divisor = tensor("other");
    keep(divisor);
    if (divisor >= 0 && model_.requires_grad(divisor)) keep(dividend);
  }

  /// Statistics and log-sum-exps are kept in float32 at least.
  int64_t statistic_bytes() const {
    return std::max(size_bytes(DType::float32), size_bytes(output().dtype));
  }
  int64_t mask_bytes() const { return cuda_ ? 1 : size_bytes(output().dtype); }
  int64_t attention_rows() const {
    const Value& query = model_.value(reads_.front());
    return query.elements(batch_) / std::max<int64_t>(query.shape.back().at(batch_), 1);
  }
  /// That have a mean of their own.
  int64_t rows() const {
    const Value& input = model_.value(reads_.front());
    if (const ArgumentValue* shape = argument(op_, "normalized_shape")) {
      int64_t size = 1;
      if (const auto* sizes = std::get_if<std::vector<Expression>>(shape))
        for (const Expression& dimension : *sizes) size *= dimension.at(batch_);
      return input.elements(batch_) / std::max<int64_t>(size, 1);
    }
    const bool groups = op_.target.find("group_norm") != std::string::npos;
    if (groups)
      return input.shape.front().at(batch_) *
             static_cast<int64_t>(number(op_, "num_groups", number(op_, "group", 1)));
    return input.shape.size() > 1 ? input.shape[1].at(batch_) : 1;  // batch norm: channels
  }

  const EstimateModel& model_;
  const Operator& op_;
  const int64_t batch_;
  const bool cuda_;
  const std::vector<ValueId> reads_;
  SavedForBackward saved_;
};

}  // namespace

SavedForBackward saved_for_backward(const EstimateModel& model, const Operator& op, int64_t batch,
                                    bool cuda) {
  const bool nothing =
      !model.works(op) || !model.differentiated(op) || op.reads().empty() || op.outputs.front() < 0;
  return nothing ? SavedForBackward{} : Keeper(model, op, batch, cuda).run();
}

}  // namespace penstock
