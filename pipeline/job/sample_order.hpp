// Which sample of the data each place of a run's global batches takes.
//
// A pure function of the job's seed and the place's number in the run, counted over steps, replicas
// and microbatches: no split changes it, and a resumed run goes on in the same order.
#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/job/job.hpp"

namespace penstock {

/// A permutation of 0 … size - 1 chosen by `key`, without memory for them: the image of
/// `position`. A Feistel network permutes the smallest power of 4 from 256 on that is not below
/// `size`, and is applied until its result is below it (cycle walking: Black and Rogaway, "Ciphers
/// with arbitrary finite domains", CT-RSA 2002).
int64_t permuted(int64_t position, int64_t size, uint64_t key);

class SampleOrder {
 public:
  /// Sample after sample, starting over at the end: what forwards alone take.
  explicit SampleOrder(int64_t samples) : samples_(samples), epoch_(samples) {}
  /// Epochs as the job says: shuffled each in its own way, and ended by `last_batch`.
  SampleOrder(const Job& job, int64_t samples);

  /// The sample at a place, both counted from 0; nothing where the place fills up the last batch of
  /// an epoch (`last_batch: pad`).
  std::optional<int64_t> sample(int64_t place) const;
  /// The places of an epoch; in all but `last_batch: wrap` a whole number of global batches.
  int64_t epoch() const { return epoch_; }

 private:
  int64_t samples_, epoch_;
  std::optional<uint64_t> shuffled_;  // by this key
};

/// Throws InputError where a global batch is larger than the data, unless the job says what fills
/// it up.
void check_global_batch(const Job& job, int64_t samples);

}  // namespace penstock
