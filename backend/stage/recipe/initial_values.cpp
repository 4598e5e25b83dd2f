#include "backend/stage/recipe/initial_values.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "backend/operators/dtype.hpp"
#include "backend/operators/random.hpp"

namespace penstock {
namespace {

/// No step of a training has this number.
constexpr int64_t kBeforeTraining = -1;

at::Generator generator_of(int64_t seed, int64_t draw) {
  const RandomKey key{static_cast<uint64_t>(seed), kBeforeTraining, draw};
  return at::make_generator<at::CPUGeneratorImpl>(operator_seed(key, 0));
}

at::Tensor target_of(const at::Tensor& tensor, const InitialStep& step) {
  if (!step.part) return tensor;
  return tensor.as_strided(step.part->sizes, step.part->strides, step.part->offset);
}

/// The whole tensor after the step, which all but a cast take in place.
at::Tensor after(const at::Tensor& tensor, const InitialStep& step, int64_t seed) {
  using Kind = InitialStep::Kind;
  at::Tensor target = target_of(tensor, step);
  const auto generator = [&] { return generator_of(seed, step.draw); };
  switch (step.kind) {
    case Kind::fill: target.fill_(step.first); break;
    case Kind::normal: target.normal_(step.first, step.second, generator()); break;
    case Kind::uniform: target.uniform_(step.first, step.second, generator()); break;
    case Kind::bernoulli: target.bernoulli_(step.first, generator()); break;
    case Kind::add: target.add_(step.first); break;
    case Kind::mul: target.mul_(step.first); break;
    case Kind::div: target.div_(step.first); break;
    case Kind::clamp: target.clamp_(step.first, step.second); break;
    case Kind::erfinv: target.erfinv_(); break;
    case Kind::exp: target.exp_(); break;
    case Kind::log: target.log_(); break;
    case Kind::sqrt: target.sqrt_(); break;
    case Kind::cast: return tensor.to(scalar_type(step.dtype));
  }
  return tensor;
}

}  // namespace

at::Tensor initial_tensor(const StoredTensor& stored, const InitialValues& values) {
  const at::NoGradGuard no_grad;
  at::Tensor tensor = at::zeros(stored.sizes, scalar_type(values.dtype));
  for (const InitialStep& step : values.steps) tensor = after(tensor, step, values.seed);
  return tensor;
}

}  // namespace penstock
