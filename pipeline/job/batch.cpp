// Checks a batch and looks for the nearest one that divides.
#include "pipeline/job/batch.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace penstock {

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> low;
  std::vector<int64_t> high;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d * d != number) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

namespace {

/// The divisor of `number` nearest to `wanted`, the smaller of two.
int64_t nearest_divisor(int64_t number, int64_t wanted) {
  int64_t best = 1;
  for (const int64_t divisor : divisors(number)) {
    if (std::llabs(divisor - wanted) < std::llabs(best - wanted)) best = divisor;
  }
  return best;
}

/// a x b x c, or -1 if that is no 64-bit number.
int64_t product(int64_t a, int64_t b, int64_t c) {
  int64_t result = 0;
  const bool overflows =
      __builtin_mul_overflow(a, b, &result) || __builtin_mul_overflow(result, c, &result);
  return overflows ? -1 : result;
}

std::string cure(const BatchShape& shape, int64_t needed) {
  if (shape.global_batch % shape.data_parallel != 0) {
    return fmt::format("Write `data_parallel: {}`, which divides the global batch.",
                       nearest_divisor(shape.global_batch, shape.data_parallel));
  }
  const int64_t per_replica = shape.global_batch / shape.data_parallel;
  const int64_t count = nearest_divisor(per_replica, shape.microbatches);
  const int64_t size = nearest_divisor(per_replica, shape.microbatch);
  std::string text =
      fmt::format("Write `microbatches: {}` with `microbatch: {}`", count, per_replica / count);
  if (size != per_replica / count) {
    text += fmt::format(", or `microbatches: {}` with `microbatch: {}`", per_replica / size, size);
  }
  if (needed > 0) text += fmt::format(", or `global_batch: {}`", needed);
  return text + ".";
}

}  // namespace

void check_batch(const BatchShape& shape, std::string_view place) {
  const int64_t needed = product(shape.data_parallel, shape.microbatches, shape.microbatch);
  if (needed == shape.global_batch) return;
  throw InputError(place,
                   fmt::format("global_batch {} is not data_parallel {} x microbatches {} x "
                               "microbatch {}{}",
                               shape.global_batch, shape.data_parallel, shape.microbatches,
                               shape.microbatch, needed > 0 ? fmt::format(" = {}", needed) : ""),
                   cure(shape, needed));
}

}  // namespace penstock
