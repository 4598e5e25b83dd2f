#include "backend/executor/update/reduction.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backend/operators/dtype.hpp"

namespace penstock {

struct Reduction::Bucket {
  GradientBucket what;
  at::Tensor sum = {};
  std::set<int> stages_left = {};  // whose gradients are not final
  size_t tensors_left = 0;         // of the stage that is watched
  std::unique_ptr<Transfer> transfer = {};

  bool final() const { return stages_left.empty() || tensors_left == 0; }
};

Reduction::Reduction(std::vector<GradientBucket> buckets, const std::vector<int>& finishing,
                     bool overlap, TensorStore& store, Communicator& communicator)
    : overlap_(overlap), store_(store), communicator_(communicator) {
  for (GradientBucket& what : buckets) {
    auto& list = what.shared ? shared_ : own_;
    list.push_back(std::make_unique<Bucket>(Bucket{.what = std::move(what)}));
    place(*list.back());
  }
  const auto ends = [&](const std::unique_ptr<Bucket>& bucket) {
    std::ptrdiff_t last = 0;
    for (const int stage : bucket->what.stages)
      last = std::max(last, std::ranges::find(finishing, stage) - finishing.begin());
    return last;
  };
  std::ranges::stable_sort(own_, {}, ends);
}

Reduction::~Reduction() = default;

void Reduction::place(Bucket& bucket) {
  bucket.sum = at::zeros({bucket.what.elements},
                         at::TensorOptions(scalar_type(bucket.what.dtype)).device(store_.device()));
  for (size_t i = 0; i < bucket.what.tensors.size(); ++i) {
    const auto& [begin, elements] = bucket.what.places[i];
    const int tensor = bucket.what.tensors[i];
    store_.place_gradient(
        tensor, bucket.sum.narrow(0, begin, elements).view(store_.tensor(tensor).sizes()));
  }
}

void Reduction::begin_step() {
  begun_ = 0;
  for (const auto* list : {&own_, &shared_}) {
    for (const auto& bucket : *list) {
      if (!connected_) communicator_.connect_sums(bucket->what.ranks);
      bucket->stages_left = {bucket->what.stages.begin(), bucket->what.stages.end()};
      bucket->tensors_left = bucket->what.tensors.size();
    }
  }
  connected_ = true;
}

void Reduction::watch(int stage, const std::map<int, int>& uses) {
  if (!overlap_) return;
  awaited_.clear();
  for (const auto& bucket : own_) {
    if (bucket->stages_left != std::set{stage}) continue;
    for (const int tensor : bucket->what.tensors) {
      const auto found = uses.find(tensor);
      if (found != uses.end()) awaited_[tensor] = {bucket.get(), found->second};
    }
  }
  store_.watch_gradients([this](int tensor) { added(tensor); });
}

void Reduction::stop_watching() {
  awaited_.clear();
  store_.watch_gradients({});
}

void Reduction::added(int tensor) {
  const auto found = awaited_.find(tensor);
  if (found == awaited_.end()) return;
  auto& [bucket, left] = found->second;
  if (--left > 0) return;
  if (left < 0) throw std::logic_error("a gradient changes after it was final");
  --bucket->tensors_left;
  begin_ready();
}

void Reduction::end_stage(int stage) {
  stop_watching();
  for (const auto& bucket : own_) bucket->stages_left.erase(stage);
  if (overlap_) begin_ready();
}

/// In their order, whichever is final first: that is the same on all ranks.
void Reduction::begin_ready() {
  for (; begun_ < own_.size() && own_[begun_]->final(); ++begun_) begin(*own_[begun_]);
}

void Reduction::begin(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  for (const int tensor : bucket.what.tensors) {
    if (!store_.gradient(tensor).defined())
      store_.accumulate(tensor, at::zeros_like(store_.tensor(tensor)));
  }
  bucket.transfer = bucket.what.sharded
                        ? communicator_.start_reduce_scatter(bucket.sum, bucket.what.ranks)
                        : communicator_.start_all_reduce(bucket.sum, bucket.what.ranks);
}

void Reduction::begin_own() {
  for (; begun_ < own_.size(); ++begun_) begin(*own_[begun_]);
}

void Reduction::begin_shared() {
  for (const auto& bucket : shared_) begin(*bucket);
}

void Reduction::gather() {
  for (const auto* list : {&own_, &shared_}) {
    for (const auto& bucket : *list) {
      if (bucket->what.sharded)
        communicator_.start_all_gather(bucket->sum, bucket->what.ranks)->wait();
    }
  }
}

void Reduction::finish() {
  for (const auto* list : {&own_, &shared_}) {
    for (const auto& bucket : *list) std::exchange(bucket->transfer, nullptr)->wait();
  }
}

}  // namespace penstock
