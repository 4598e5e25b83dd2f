#include "backend/communication/communicator.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock {

std::vector<int> Communicator::all_ranks() const {
  std::vector<int> ranks(static_cast<size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void Communicator::barrier() { all_reduce(at::zeros({1}), all_ranks()); }

void Communicator::all_to_all(const at::Tensor& sent, const at::Tensor& received,
                              const std::vector<int>& ranks) {
  constexpr int kTag = std::numeric_limits<int>::max();  // of no transfer of a step
  const auto count = static_cast<int64_t>(ranks.size());
  TORCH_CHECK(sent.numel() % count == 0, sent.numel(), " elements for ", count, " ranks");
  std::vector<at::Tensor> from = received.view({count, -1}).unbind();
  const std::vector<at::Tensor> to = sent.view({count, -1}).unbind();
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != rank()) transfers.push_back(receive({ranks[i], false}, from[i], kTag));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != rank()) {
      transfers.push_back(send({ranks[i], false}, to[i], kTag));
    } else {
      from[i].copy_(to[i]);
    }
  }
  for (const auto& transfer : transfers) transfer->wait();
}

}  // namespace penstock
