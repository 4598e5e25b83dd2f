#include "backend/communication/nccl/collective_lanes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

constexpr const char* kSum = "a sum over ranks";

NcclApi::Numbers as_numbers(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), static_cast<size_t>(tensor.numel()), tensor.scalar_type()};
}

/// Moves values as bytes, since NCCL has no booleans.
NcclApi::Numbers as_bytes(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.nbytes(), at::kByte};
}

}  // namespace

CollectiveLanes::CollectiveLanes(NcclApi& api, SharedStore& store, EventPool& events, int rank,
                                 CollectiveKind kind)
    : api_(api), store_(store), events_(events), rank_(rank), kind_(std::move(kind)) {}

Lane& CollectiveLanes::of(const std::vector<int>& ranks) {
  const std::string name = fmt::format("{}-{}", kind_.name, fmt::join(ranks, "-"));
  const auto [found, fresh] = lanes_.try_emplace(ranks, api_, name, -1, kind_.computes);
  if (fresh)
    found->second.connect(store_, static_cast<int>(ranks.size()), place(ranks), kind_.max_ctas,
                          kind_.deadline_s);
  return found->second;
}

EventPool::Event CollectiveLanes::connect(const std::vector<int>& ranks, at::Device device) {
  const at::Tensor numbers = at::zeros({static_cast<int64_t>(ranks.size())}, device);
  const at::Tensor others = at::zeros_like(numbers);
  all_reduce(numbers, ranks);
  reduce_scatter(numbers, ranks);
  all_gather(numbers, ranks);
  return all_to_all(numbers, others, ranks).done;
}

int CollectiveLanes::place(const std::vector<int>& ranks) const {
  return static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
}

CollectiveLanes::Enqueued CollectiveLanes::enqueue(const char* what, const std::vector<int>& ranks,
                                                   const Call& call) {
  Lane& lane = of(ranks);
  return {lane, lane.enqueue(events_, what, kind_.deadline_s, call)};
}

CollectiveLanes::Enqueued CollectiveLanes::all_reduce(const at::Tensor& tensor,
                                                      const std::vector<int>& ranks) {
  const NcclApi::Numbers numbers = as_numbers(tensor);
  return enqueue(kSum, ranks, [&](NcclApi::Comm comm, NcclApi::Stream stream) {
    return api_.all_reduce(comm, numbers, stream);
  });
}

CollectiveLanes::Enqueued CollectiveLanes::reduce_scatter(const at::Tensor& tensor,
                                                          const std::vector<int>& ranks) {
  const NcclApi::Numbers numbers = as_numbers(tensor);
  return enqueue(kSum, ranks, [&](NcclApi::Comm comm, NcclApi::Stream stream) {
    return api_.reduce_scatter(comm, numbers, static_cast<int>(ranks.size()), place(ranks), stream);
  });
}

CollectiveLanes::Enqueued CollectiveLanes::all_gather(const at::Tensor& tensor,
                                                      const std::vector<int>& ranks) {
  const NcclApi::Numbers numbers = as_bytes(tensor);
  return enqueue("a gather over ranks", ranks, [&](NcclApi::Comm comm, NcclApi::Stream stream) {
    return api_.all_gather(comm, numbers, static_cast<int>(ranks.size()), place(ranks), stream);
  });
}

CollectiveLanes::Enqueued CollectiveLanes::all_to_all(const at::Tensor& sent,
                                                      const at::Tensor& received,
                                                      const std::vector<int>& ranks) {
  const NcclApi::Numbers from = as_bytes(sent), to = as_bytes(received);
  return enqueue("an exchange among ranks", ranks, [&](NcclApi::Comm comm, NcclApi::Stream stream) {
    return api_.all_to_all(comm, from.data, to.data, from.count / ranks.size(),
                           static_cast<int>(ranks.size()), stream);
  });
}

}  // namespace penstock
