// The rules are those of tools/autograd/derivatives.yaml in PyTorch 2.11.
#include "estimate/saved.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

namespace penstock {

namespace {

using Saved = OperatorTraits::Saved;

class SavedCollector {
 public:
  SavedCollector(const EstimateModel& model, const Operator& op, int64_t batch, bool cuda)
      : model_(model),
        op_(op),
        batch_(batch),
        cuda_(cuda),
        traits_(traits_of(op)),
        reads_(op.reads()) {}

  SavedForBackward run() {
    switch (traits_.saved) {
      case Saved::nothing: break;
      case Saved::operands: keep_data(); break;
      case Saved::result: keep(op_.outputs.front()); break;
      case Saved::factors: keep_factors(); break;
      case Saved::divisor: keep_divisor(); break;
      case Saved::norm:
      case Saved::group_norm:
        keep(reads_.front());
        keep_further(2 * rows() * statistic_bytes());
        break;
      case Saved::attention:
        for (size_t i = 0; i < std::min<size_t>(reads_.size(), 3); ++i) keep(reads_[i]);
        keep(op_.outputs.front());
        keep_further(attention_rows() * statistic_bytes());
        break;
      case Saved::mask: keep_further(output().elements(batch_) * mask_bytes()); break;
      case Saved::positions:
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
  /// The operands that are multiplied, without an addend.
  std::vector<ValueId> factors() const {
    const bool adds = traits_.flops == OperatorTraits::Flops::added_product;
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
  /// Rows, groups or channels that have a mean of their own.
  int64_t rows() const {
    const Value& input = model_.value(reads_.front());
    if (const ArgumentValue* shape = argument(op_, "normalized_shape")) {
      int64_t size = 1;
      if (const auto* sizes = std::get_if<std::vector<Expression>>(shape))
        for (const Expression& dimension : *sizes) size *= dimension.at(batch_);
      return input.elements(batch_) / std::max<int64_t>(size, 1);
    }
    if (traits_.saved == Saved::group_norm)
      return input.shape.front().at(batch_) *
             static_cast<int64_t>(number(op_, "num_groups", number(op_, "group", 1)));
    return input.shape.size() > 1 ? input.shape[1].at(batch_) : 1;  // batch norm: channels
  }

  const EstimateModel& model_;
  const Operator& op_;
  const int64_t batch_;
  const bool cuda_;
  const OperatorTraits& traits_;
  const std::vector<ValueId> reads_;
  SavedForBackward saved_;
};

}  // namespace

SavedForBackward saved_for_backward(const EstimateModel& model, const Operator& op, int64_t batch,
                                    bool cuda) {
  const bool nothing =
      !model.works(op) || !model.differentiated(op) || op.reads().empty() || op.outputs.front() < 0;
  return nothing ? SavedForBackward{} : SavedCollector(model, op, batch, cuda).run();
}

}  // namespace penstock
