#include "pipeline/job/sample_order.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/draw.hpp"
#include "base/error.hpp"

namespace penstock {

namespace {

/// Apart from other draws with the job's seed.
constexpr uint64_t order_stream = 0x6f72646572;

/// Of the job's data, of which there is an end.
int64_t places_of_epoch(const Job& job, int64_t samples) {
  const int64_t left = samples % job.global_batch;
  switch (job.last_batch.value_or(LastBatch::wrap)) {
    case LastBatch::drop: return samples - left;
    case LastBatch::pad: return left == 0 ? samples : samples - left + job.global_batch;
    case LastBatch::wrap: break;
  }
  return samples;
}

}  // namespace

int64_t permuted(int64_t position, int64_t size, uint64_t key) {
  constexpr uint64_t rounds = 6;
  int half = 4;  // bits: few rounds do not mix fewer
  while (half < 31 && (int64_t{1} << (2 * half)) < size) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto number = static_cast<uint64_t>(position);
  do {
    uint64_t left = number >> half, right = number & mask;
    for (uint64_t round = 0; round < rounds; ++round)
      left = std::exchange(right, left ^ (mixed(key + round, right) & mask));
    number = left << half | right;
  } while (number >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(number);
}

SampleOrder::SampleOrder(const Job& job, int64_t samples)
    : samples_(samples), epoch_(places_of_epoch(job, samples)) {
  if (job.shuffle) shuffled_ = mixed(order_stream, job.seed);
}

std::optional<int64_t> SampleOrder::sample(int64_t place) const {
  const int64_t position = place % epoch_;
  if (position >= samples_) return std::nullopt;
  if (!shuffled_) return position;
  return permuted(position, samples_, mixed(*shuffled_, static_cast<uint64_t>(place / epoch_)));
}

void check_global_batch(const Job& job, int64_t samples) {
  if (job.global_batch <= samples) return;
  if (job.last_batch && *job.last_batch != LastBatch::drop) return;
  const std::string fewer = fmt::format("Write `global_batch: {}` or less", samples);
  if (job.last_batch) {
    throw InputError("last_batch: drop",
                     fmt::format("nothing is left of {} samples in global batches of {}", samples,
                                 job.global_batch),
                     fewer + ".");
  }
  throw InputError("global_batch",
                   fmt::format("{} samples, but the data has {}", job.global_batch, samples),
                   fewer +
                       ", or say what fills the batch up: `last_batch: pad` (nothing that "
                       "counts) or `last_batch: wrap` (the same samples again).");
}

}  // namespace penstock
