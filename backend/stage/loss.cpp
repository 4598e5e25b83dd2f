#include "backend/stage/loss.hpp"

#include <sstream>

#include "backend/operators/class_loss.hpp"
#include "backend/operators/tensor_group.hpp"
#include "base/error.hpp"

namespace penstock {
namespace {

constexpr int64_t kIgnored = -100;

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

[[noreturn]] void refuse(std::string_view loss, const at::Tensor& output, const at::Tensor& target,
                         std::string_view cure) {
  throw InputError(std::string("loss: ") + std::string(loss),
                   "the model's first output is " + shape_of(output) + ", the target " +
                       (target.defined() ? shape_of(target) : "absent"),
                   cure);
}

/// Over the last dimension, of which this rank may have a part of `count`.
struct Classes {
  int64_t count;
  const std::optional<sharding::Layout>& held;
};

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target, double smoothing,
                         at::Reduction::Reduction reduction, const Classes& classes) {
  const at::Tensor rows = output.reshape({-1, output.size(-1)}), targets = target.reshape({-1});
  if (!classes.held)
    return at::cross_entropy_loss(rows, targets, {}, reduction, kIgnored, smoothing);
  return cross_entropy_of_classes(rows, targets, {{}, reduction, kIgnored, smoothing},
                                  classes.count,
                                  sharding::Layout::split(1, classes.held->blocks()));
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target, double smoothing,
                         const std::optional<sharding::Layout>& held) {
  const char* name = "cross_entropy";
  if (!target.defined() || target.scalar_type() != at::kLong || output.dim() < 1 ||
      !output.is_floating_point() || target.sizes() != output.sizes().slice(0, output.dim() - 1)) {
    refuse(name, output, target,
           "the target is int64, shaped like the output without its last "
           "dimension");
  }
  const Classes classes{output.size(-1) * (held ? current_group().parts() : 1), held};
  if (!target.is_cpu()) {  // the host does not wait for the device to count
    return cross_entropy(output, target, smoothing, at::Reduction::Sum, classes) /
           (target != kIgnored).sum().clamp_min(1);
  }
  const auto reduction =
      counted_targets(Loss::cross_entropy, target) > 0 ? at::Reduction::Mean : at::Reduction::Sum;
  try {
    return cross_entropy(output, target, smoothing, reduction, classes);
  } catch (const c10::IndexError& error) {
    throw InputError(std::string("loss: ") + name, error.what_without_backtrace(),
                     "targets are class numbers from 0 to " + std::to_string(classes.count - 1) +
                         ", or -100 for one that does not count");
  }
}

void require_same_type(Loss loss, const at::Tensor& output, const at::Tensor& target) {
  if (!target.defined() || target.sizes() != output.sizes() || !output.is_floating_point() ||
      target.scalar_type() != output.scalar_type()) {
    refuse(name(loss), output, target, "the target has the shape and type of the output");
  }
}

}  // namespace

bool needs_target(Loss loss) { return loss != Loss::output; }

at::Tensor mean_loss(const LossSpec& loss, const at::Tensor& output, const at::Tensor& target,
                     const std::optional<sharding::Layout>& classes) {
  switch (loss.kind) {
    case Loss::cross_entropy: return cross_entropy(output, target, loss.label_smoothing, classes);
    case Loss::mse:
      require_same_type(loss.kind, output, target);
      return at::mse_loss(output, target);
    case Loss::bce_with_logits:
      require_same_type(loss.kind, output, target);
      return at::binary_cross_entropy_with_logits(output, target);
    case Loss::output: break;
  }
  if (!output.is_floating_point()) {
    refuse("output", output, target, "a loss is a floating-point number");
  }
  return output.dim() == 0 ? output : output.mean();
}

int64_t counted_targets(Loss loss, const at::Tensor& target) {
  if (loss != Loss::cross_entropy) return target.defined() ? target.numel() : 1;
  return target.numel() - (target == kIgnored).sum().item<int64_t>();
}

}  // namespace penstock
