#include "backend/operators/class_loss.hpp"

#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <stdexcept>
#include <string>

#include "backend/operators/parts.hpp"
#include "backend/operators/tensor_group.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

/// The loss of a row is a (l - x_t) + b (W l - sum of w x), where l is the logarithm of the sum of
/// the exponentials of all its logits x, t the target, w the weights of classes and W their sum.
struct Rows {
  at::Tensor target, found;  // among the classes of this rank; is it one of them?
  at::Tensor a, b;           // 0 for a target that is ignored; b only where labels are smoothed
  at::Tensor weight;         // of this rank's classes; undefined where all are 1
  at::Tensor sum_of_weights;
};

at::Tensor weighted_sum(const at::Tensor& logits, const Rows& rows) {
  if (!rows.b.defined()) return at::zeros_like(rows.a);
  return (rows.weight.defined() ? logits * rows.weight : logits)
      .sum(1, false, rows.a.scalar_type());
}

/// The numbers that this rank gives the others; exponentials of logits less their row's largest.
struct Own {
  at::Tensor numbers;  // [1, class_numbers, rows]
  at::Tensor exponentials, largest;
};

Own own_numbers(const at::Tensor& logits, const Rows& rows) {
  at::Tensor largest = logits.amax(1, /*keepdim=*/true).to(rows.a.scalar_type());
  largest.masked_fill_(largest.isinf(), 0);
  const at::Tensor exponentials = (logits - largest).exp_();
  const at::Tensor log_sum = exponentials.sum(1).log_().add_(largest.squeeze(1));
  const at::Tensor chosen = logits.gather(1, rows.target.unsqueeze(1)).squeeze(1);
  const at::Tensor numbers =
      at::stack({log_sum, chosen.to(log_sum.scalar_type()).masked_fill(rows.found.logical_not(), 0),
                 weighted_sum(logits, rows)});
  return {numbers.unsqueeze(0), exponentials, largest};
}

class LossOfRows : public torch::autograd::Function<LossOfRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const Rows& rows) {
    const Own own = own_numbers(logits, rows);
    const at::Tensor all = converted(own.numbers, sharding::Layout::split(0),
                                     sharding::Layout::identical(), current_group());
    const at::Tensor log_sum = all.select(1, 0).logsumexp(0);
    const at::Tensor probabilities =
        own.exponentials.mul_((own.largest - log_sum.unsqueeze(1)).exp_()).to(logits.scalar_type());
    context->save_for_backward(
        {probabilities, rows.target, rows.found, rows.a, rows.b, rows.weight, rows.sum_of_weights});
    const at::Tensor losses = rows.a * (log_sum - all.select(1, 1).sum(0));
    if (!rows.b.defined()) return losses;
    return losses + rows.b * (rows.sum_of_weights * log_sum - all.select(1, 2).sum(0));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& probabilities = saved[0];
    const Rows rows{saved[1], saved[2], saved[3], saved[4], saved[5], saved[6]};
    const auto factor = [&](const at::Tensor& of_row) {
      return (gradients[0] * of_row).to(probabilities.scalar_type()).unsqueeze(1);
    };
    const bool smooth = rows.b.defined();
    at::Tensor own =
        probabilities * factor(smooth ? rows.a + rows.b * rows.sum_of_weights : rows.a);
    own.scatter_add_(1, rows.target.unsqueeze(1), factor(-rows.a * rows.found));
    if (smooth)
      own.sub_(rows.weight.defined() ? factor(rows.b) * rows.weight.to(own.scalar_type())
                                     : factor(rows.b));
    return {own, at::Tensor()};
  }
};

void require_classes(const at::Tensor& target, const at::Tensor& counts, int64_t classes) {
  if (!target.is_cpu()) return;  // the host does not wait for the device
  const at::Tensor wrong =
      target.masked_select(counts.logical_and(target.lt(0).logical_or_(target.ge(classes))));
  if (wrong.numel() > 0)
    TORCH_CHECK_INDEX(false, "Target ", wrong[0].item<int64_t>(), " is out of bounds.");
}

at::Tensor reduced(const at::Tensor& losses, const at::Tensor& weights, int64_t reduction) {
  switch (reduction) {
    case at::Reduction::None: return losses;
    case at::Reduction::Sum: return losses.sum();
    case at::Reduction::Mean: return losses.sum() / weights.sum();
    default: throw std::invalid_argument("no such reduction");
  }
}

at::Tensor called(const at::Tensor& self, const at::Tensor& target,
                  const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignore_index,
                  double label_smoothing, int64_t classes, const std::string& held) {
  const auto layout = sharding::Layout::parse(held);
  if (!layout) throw std::invalid_argument("`" + held + "` is no layout");
  return cross_entropy_of_classes(self, target, {weight, reduction, ignore_index, label_smoothing},
                                  classes, *layout);
}

}  // namespace

at::Tensor cross_entropy_of_classes(const at::Tensor& logits, const at::Tensor& target,
                                    const CrossEntropy& how, int64_t classes,
                                    const sharding::Layout& held) {
  const TensorGroup& group = current_group();
  const int64_t dimension = held.dimension();
  const at::Tensor by_row = logits.movedim(dimension, -1).reshape({-1, logits.size(dimension)});
  const at::Tensor targets = target.reshape({-1}), counts = targets.ne(how.ignore_index);
  require_classes(targets, counts, classes);

  // Rounded once, at the end, as in the kernels of PyTorch.
  const auto type = at::toOpMathType(logits.scalar_type());
  at::Tensor weights = counts.to(type);  // by row
  Rows rows;
  const sharding::Layout along = sharding::Layout::split(0, held.blocks());
  if (how.weight) {
    const at::Tensor all = how.weight->to(type);
    weights = weights * all.index_select(0, targets.clamp(0, classes - 1));
    rows.weight = sharding::own_part(all, along, group.parts(), group.part);
    rows.sum_of_weights = all.sum();
  }
  const sharding::OwnIndex own =
      sharding::own_index(targets, classes, along, group.parts(), group.part);
  rows.target = own.index;
  rows.found = own.found;
  rows.a = weights * (1 - how.label_smoothing);
  if (how.label_smoothing > 0) {
    rows.b = counts.to(type) * (how.label_smoothing / static_cast<double>(classes));
    if (!how.weight)
      rows.sum_of_weights = at::full({}, static_cast<double>(classes), rows.b.options());
  }
  const at::Tensor losses = LossOfRows::apply(by_row, rows).masked_fill(counts.logical_not(), 0);
  return reduced(how.reduction == at::Reduction::None ? losses.reshape(target.sizes()) : losses,
                 weights, how.reduction)
      .to(logits.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(penstock, library) {
  library.def(
      "cross_entropy_of_classes(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
      "int ignore_index=-100, float label_smoothing=0.0, *, int classes, str held) -> Tensor",
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, called));
}

}  // namespace penstock
