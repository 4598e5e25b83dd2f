#include "estimate/work.hpp"

#include <algorithm>

#include "estimate/saved.hpp"
#include "graph/operators/flops.hpp"
#include "graph/operators/table.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {

namespace {

constexpr double attention_backward = 2.5;

/// Counts the work of one operator.
class WorkCounter {
 public:
  WorkCounter(const EstimateModel& model, const Operator& op, int64_t batch, bool cuda)
      : model_(model),
        op_(op),
        batch_(batch),
        saved_(saved_for_backward(model, op, batch, cuda)),
        kind_(class_of(op)),
        forward_flops_(forward_flops(model.graph(), op, batch)) {
    for (const ValueId output : op.outputs)
      if (output >= 0) gradient_bytes_ += model.requires_grad(output) ? bytes(output) : 0;
  }

  OperatorWork run() {
    if (model_.works(op_)) {
      work_.forward.push_back({kind_, dtype(), forward_flops_,
                               static_cast<double>(forward_bytes(model_.graph(), op_, batch_))});
      if (model_.differentiated(op_)) backward();
      gather_again();
    }
    if (model_.differentiated(op_)) add_up_gradients();
    return std::move(work_);
  }

 private:
  double bytes(ValueId id) const { return static_cast<double>(model_.value(id).bytes(batch_)); }
  double elements(ValueId id) const {
    return static_cast<double>(model_.value(id).elements(batch_));
  }
  /// The first output that is a tensor.
  ValueId output() const {
    return *std::ranges::find_if(op_.outputs, [](ValueId id) { return id >= 0; });
  }
  DType dtype() const {
    for (const ValueId id : op_.outputs)
      if (id >= 0) return model_.value(id).dtype;
    return DType::float32;
  }
  double saved_bytes() const {
    double sum = static_cast<double>(saved_.own_bytes);
    for (const ValueId id : saved_.values) sum += bytes(id);
    return sum;
  }

  void backward() {
    for (const ValueId operand : model_.data_operands(op_)) gradient_of(operand, work_.input);
    const std::vector<ValueId> parameters = model_.parameter_operands(op_);
    for (const ValueId operand : parameters) gradient_of(operand, work_.weight);
    double stored = 0;
    for (const ValueId operand : parameters) stored += bytes(operand);
    if (stored > 0)
      work_.weight.push_back({OperatorClass::elementwise, dtype(), 0, accumulate_traffic * stored});
  }

  void gather_again() {
    if (!sharding::gathers_again(op_)) return;
    const sharding::GatheredIn& again = model_.gathered_in(model_.value(output()).producer);
    for (const auto& [in, work] :
         {std::pair(again.input, &work_.input), {again.weight, &work_.weight}})
      if (in) work->push_back(work_.forward.front());
  }

  /// Work from the gradient of the result to the operand's.
  void gradient_of(ValueId operand, std::vector<Work>& work) {
    const double own = bytes(operand);
    switch (kind_) {
      case OperatorClass::gemm:
      case OperatorClass::convolution: return gradient_of_factor(operand, work);
      case OperatorClass::attention:
        if (work.empty())  // of all three at once
          work.push_back({kind_, dtype(), attention_backward * forward_flops_,
                          gradient_bytes_ + 2 * saved_bytes()});
        return;
      case OperatorClass::normalisation:
        if (&work == &work_.input || work.empty())  // scale and shift at once
          work.push_back({kind_, dtype(), forward_flops_, gradient_bytes_ + saved_bytes() + own});
        return;
      case OperatorClass::lookup:
        work.push_back({kind_, dtype(), 0, own + 3 * gradient_bytes_});
        return;
      default: return gradient_of_others(operand, work);
    }
  }

  /// The other factors times the result's gradient; a bias gets a sum.
  void gradient_of_factor(ValueId operand, std::vector<Work>& work) {
    const bool added = model_.value(operand).shape.size() <= 1 && model_.of_parameters(operand);
    if (added) {
      work.push_back({OperatorClass::reduction, dtype(), elements(output()),
                      gradient_bytes_ + bytes(operand)});
      return;
    }
    double moved = gradient_bytes_ + bytes(operand);
    for (const ValueId read : op_.reads())
      if (read != operand && model_.value(read).shape.size() > 1) moved += bytes(read);
    work.push_back({kind_, dtype(), forward_flops_ * share_of_product(operand), moved});
  }

  /// A recurrent layer multiplies with several matrices, each once: its part of them.
  double share_of_product(ValueId operand) const {
    if (!model_.of_parameters(operand)) return 1;
    double all = 0;
    for (const ValueId read : op_.reads())
      if (model_.of_parameters(read) && model_.value(read).shape.size() > 1) all += elements(read);
    return elements(operand) / all;
  }

  void gradient_of_others(ValueId operand, std::vector<Work>& work) {
    const bool sums = kind_ == OperatorClass::reduction;  // each element gets its row's gradient
    const bool broadcast = !sums && elements(operand) < elements(output());
    const bool passed = passes_gradient() && !broadcast;
    if (passed) return;
    work.push_back({broadcast ? OperatorClass::reduction : kind_, dtype(),
                    std::max(elements(operand), elements(output())),
                    gradient_bytes_ + saved_bytes() + bytes(operand)});
  }

  bool passes_gradient() const {
    const OperatorTraits::Gradient gradient = namesake_of(op_).gradient;
    return gradient == OperatorTraits::Gradient::passed ||
           gradient == OperatorTraits::Gradient::shared;
  }

  void add_up_gradients() {
    for (const ValueId id : op_.outputs) {
      if (id < 0) continue;
      for (int further = 1; further < model_.gradients(id); ++further)
        work_.input.push_back({OperatorClass::elementwise, model_.value(id).dtype, elements(id),
                               accumulate_traffic * bytes(id)});
    }
  }

  const EstimateModel& model_;
  const Operator& op_;
  const int64_t batch_;
  const SavedForBackward saved_;
  const OperatorClass kind_;
  const double forward_flops_;
  double gradient_bytes_ = 0;  // of the results
  OperatorWork work_;
};

}  // namespace

OperatorWork work_of(const EstimateModel& model, const Operator& op, int64_t batch, bool cuda) {
  return WorkCounter(model, op, batch, cuda).run();
}

ValueId loss_input(const EstimateModel& model) { return model.graph().first_output().value_or(-1); }

OperatorWork work_of_loss(const EstimateModel& model, Loss loss, int64_t batch) {
  const ValueId id = loss_input(model);
  if (id < 0) return {};
  const Value& output = model.value(id);
  const auto bytes = static_cast<double>(output.bytes(batch));
  const auto elements = static_cast<double>(output.elements(batch));
  const auto piece = [&](OperatorClass kind, double flops, double traffic) {
    return Work{kind, output.dtype, flops * elements, traffic * bytes};
  };
  switch (loss) {
    case Loss::cross_entropy:  // log-softmax; then a gradient filled in, and its way back
      return {{piece(OperatorClass::normalisation, 5, 2)},
              {piece(OperatorClass::elementwise, 0, 1), piece(OperatorClass::normalisation, 5, 3)},
              {}};
    case Loss::mse:
      return {
          {piece(OperatorClass::reduction, 3, 2)}, {piece(OperatorClass::elementwise, 2, 3)}, {}};
    case Loss::bce_with_logits:  // 1 - target, log-sigmoid, product, difference; then their mean
      return {{piece(OperatorClass::elementwise, 8, 10), piece(OperatorClass::reduction, 1, 1)},
              {piece(OperatorClass::elementwise, 6, 7)},
              {}};
    case Loss::output: break;
  }
  return {{piece(OperatorClass::reduction, 1, 1)}, {piece(OperatorClass::elementwise, 0, 1)}, {}};
}

int64_t saved_by_loss(const EstimateModel& model, Loss loss, int64_t batch) {
  const ValueId id = loss_input(model);
  return id >= 0 && loss == Loss::cross_entropy ? model.value(id).bytes(batch) : 0;
}

double optimizer_traffic(const Job& job) {
  const bool masters = job.precision == Precision::bf16;
  const double wide = masters ? 2 : 1;  // bytes of float32 for each of the parameter's
  const double clipping = job.optimizer.clip_norm > 0 ? 3 : 0;
  return wide * (3 + clipping + 2 * job.optimizer.state_per_parameter()) + (masters ? 1 : 0);
}

double ideal_s(const DeviceSpec& device, const Work& work) {
  const double compute_s = work.flops > 0 ? work.flops / device.peak(work.kind, work.dtype) : 0;
  return std::max(compute_s, work.bytes / device.bandwidth);
}

double seconds(const DeviceSpec& device, const std::vector<Work>& work) {
  double sum_s = 0;
  for (const Work& piece : work)
    sum_s += ideal_s(device, piece) / device.efficiency[static_cast<size_t>(piece.kind)] +
             device.launch_s;
  return sum_s;
}

}  // namespace penstock
