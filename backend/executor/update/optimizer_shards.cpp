#include "backend/executor/update/optimizer_shards.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>

namespace penstock {

OptimizerShards::OptimizerShards(const std::vector<GradientBucket>& buckets, TensorStore& store,
                                 Communicator& communicator)
    : parts_(parts_of(buckets, communicator.rank())), communicator_(communicator) {
  const at::NoGradGuard no_grad;
  for (const GradientBucket& bucket : buckets) {
    if (!bucket.sharded) continue;
    const at::Tensor& first = store.tensor(bucket.tensors.front());
    const at::Tensor all = at::zeros({bucket.elements}, first.options());
    for (size_t i = 0; i < bucket.tensors.size(); ++i) {
      at::Tensor& tensor = store.tensor(bucket.tensors[i]);
      const auto& [begin, elements] = bucket.places[i];
      tensor = all.narrow(0, begin, elements).view(tensor.sizes()).copy_(tensor);
      places_[bucket.tensors[i]] = {&bucket, i};
    }
    shards_.push_back({&bucket, all});
  }
}

bool OptimizerShards::share(int tensor, int rank) const {
  const auto place = places_.find(tensor);
  return place != places_.end() && std::ranges::count(place->second.first->ranks, rank) > 0;
}

void OptimizerShards::gather_parameters() {
  std::vector<std::unique_ptr<Transfer>> in_flight;
  for (const auto& [bucket, parameters] : shards_)
    in_flight.push_back(communicator_.start_all_gather(parameters, bucket->ranks));
  for (const auto& transfer : in_flight) transfer->wait();
}

at::Tensor OptimizerShards::collect(int tensor, const at::Tensor& own, int receiver,
                                    int tag) const {
  const auto& [bucket, i] = places_.at(tensor);
  const at::Tensor part = own.to(at::kCPU);
  if (communicator_.rank() != receiver) {
    if (part.numel() > 0) communicator_.send({receiver, false}, part, tag)->wait();
    return {};
  }
  at::Tensor whole = at::empty({bucket->places[i].elements}, part.options());
  for (size_t member = 0; member < bucket->ranks.size(); ++member) {
    const auto [begin, end] = part_of(*bucket, i, member);
    if (begin == end) continue;
    at::Tensor place = whole.narrow(0, begin, end - begin);
    if (bucket->ranks[member] == receiver) {
      place.copy_(part);
    } else {
      communicator_.receive({bucket->ranks[member], false}, place, tag)->wait();
    }
  }
  return whole;
}

at::Tensor own_part(const TensorParts& parts, int index, const at::Tensor& tensor) {
  const auto part = parts.find(index);
  if (part == parts.end()) return tensor;
  return tensor.view(-1).narrow(0, part->second.begin, part->second.elements());
}

}  // namespace penstock
