#include "backend/device/probe.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

namespace penstock {

namespace {

constexpr int kWarmUp = 3, kRepetitions = 16;

struct Timing {
  double median_s = 0, spread = 0;
};

template <typename Work>
Timing time_work(Marks& marks, const Work& work) {
  std::vector<double> times;
  for (int i = -kWarmUp; i < kRepetitions; ++i) {
    marks.mark();
    work();
    marks.mark();
    const std::vector<double> taken = marks.times();
    if (i >= 0) times.push_back(taken[1] - taken[0]);
  }
  std::sort(times.begin(), times.end());
  const double median = (times[kRepetitions / 2 - 1] + times[kRepetitions / 2]) / 2;
  return {median, (times[kRepetitions * 3 / 4] - times[kRepetitions / 4]) / median};
}

}  // namespace

Probe run_probe(ComputeDevice& device) {
  const at::NoGradGuard no_grad;
  const bool cpu = device.where().is_cpu();
  const int64_t side = cpu ? 384 : 4096, elements = cpu ? 4 << 20 : 64 << 20;
  const auto options = at::TensorOptions(at::kFloat).device(device.where());
  const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
  at::Tensor product = at::empty({side, side}, options);
  const at::Tensor from = at::zeros({elements}, options);
  at::Tensor to = at::zeros({elements}, options);
  const auto marks = device.make_marks();
  const Timing gemm = time_work(*marks, [&] { at::mm_out(product, a, b); });
  const Timing copy = time_work(*marks, [&] { to.copy_(from); });
  return {gemm.median_s, copy.median_s, std::max(gemm.spread, copy.spread)};
}

}  // namespace penstock
