// Sums the gradients of a rank over other ranks, bucket by bucket.
//
// A bucket is one tensor, and the gradients that it holds are views of it, so that no memory is
// taken beside them. What is summed with what, and in which order, follows from the plan alone: all
// ranks of a bucket agree, and results do not depend on when sums begin.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/stage/recipe/store.hpp"
#include "pipeline/plan/gradient_buckets.hpp"

namespace penstock {

class Reduction {
 public:
  /// Places the gradients of `buckets` in them. `finishing`: the rank's stages in the order in
  /// which their REDUCE_GRADs come. `overlap`: sums begin as soon as they can, otherwise with
  /// `begin_own`. All references outlive it.
  Reduction(std::vector<GradientBucket> buckets, const std::vector<int>& finishing, bool overlap,
            TensorStore& store, Communicator& communicator);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  /// All ranks call it at the start of a step; the first call connects them.
  void begin_step();
  /// The stage's last backward comes next: its buckets begin as it makes them final. `uses`:
  /// Stage::gradient_uses.
  void watch(int stage, const std::map<int, int>& uses);
  void stop_watching();
  /// The gradients of the stage are final.
  void end_stage(int stage);

  /// Begins the sums of the rank's own parameters that have not begun; all stages have ended.
  void begin_own();
  /// Begins those of parameters that ranks of a pipeline share.
  void begin_shared();
  /// Waits for all of them. A holder without a gradient has added zeros. Where the optimizer's
  /// state is sharded, a rank then has the sum of its own part of each bucket alone.
  void finish();
  /// Every rank gets the others' parts. All ranks call it at the same point of a step.
  void gather();

 private:
  struct Bucket;
  void place(Bucket& bucket);
  void added(int tensor);
  void begin_ready();
  void begin(Bucket& bucket);

  const bool overlap_;
  TensorStore& store_;
  Communicator& communicator_;
  std::vector<std::unique_ptr<Bucket>> own_, shared_;  // in the order in which they begin
  size_t begun_ = 0;                                   // of `own_`, in this step
  bool connected_ = false;
  std::map<int, std::pair<Bucket*, int>> awaited_;  // by tensor: what is still to be added
};

}  // namespace penstock
