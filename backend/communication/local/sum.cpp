#include "backend/communication/local/sum.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace penstock {

namespace {

constexpr int64_t kChunkBytes = 1 << 18;  // stays in a core's cache
constexpr int64_t kParts = 0, kSums = 1;  // what is offered

}  // namespace

LocalSum::LocalSum(Halves halves, LocalRanks& local, LocalWaiting& waiting, int rank,
                   const std::vector<int>& ranks, const at::Tensor& tensor)
    : halves_(halves), waiting_(waiting), flat_(tensor.view(-1)) {
  for (const int member : ranks) {
    if (member == rank) own_ = members_.size();
    LocalPeer* const peer = member == rank ? nullptr : local.peers.at(member).get();
    members_.push_back({peer, peer == nullptr ? 0 : peer->next_sum_tag(), 0});
  }
  offer(halves == Halves::all_gather ? kSums : kParts);
}

void LocalSum::wait() {
  const at::NoGradGuard no_grad;
  if (halves_ != Halves::all_gather) sum_own_slice(await_offers(kParts));
  if (halves_ == Halves::both) offer(kSums);
  if (halves_ != Halves::reduce_scatter) take_sums();
  await_takers();
}

/// The tensor is this rank's own again once the others have read what it offered last.
void LocalSum::await_takers() {
  for (const Member& member : members_) {
    if (member.peer == nullptr) continue;
    waiting_.until(*member.peer, [&] { return member.peer->taken(member.number); });
  }
}

LocalSum::Slice LocalSum::slice_of(size_t member) const {
  const auto count = static_cast<int64_t>(members_.size()), at = static_cast<int64_t>(member);
  return {flat_.numel() * at / count, flat_.numel() * (at + 1) / count};
}

void LocalSum::offer(int64_t what) {
  for (Member& member : members_) {
    if (member.peer != nullptr)
      member.number = member.peer->offer(offer_of(flat_, member.tag + what));
  }
}

/// The numbers of all members' offers.
std::vector<uint64_t> LocalSum::await_offers(int64_t what) {
  std::vector<uint64_t> numbers;
  for (const Member& member : members_) {
    numbers.push_back(member.peer == nullptr
                          ? 0
                          : waiting_.await_offer(*member.peer, member.tag + what, bytes()));
  }
  return numbers;
}

void LocalSum::sum_own_slice(const std::vector<uint64_t>& parts) {
  const Slice slice = slice_of(own_);
  const int64_t chunk = std::min(slice.end - slice.begin, kChunkBytes / flat_.element_size());
  // Not of the tensors' allocator: half a megabyte at most is no memory of the model.
  std::vector<char> sum_bytes(static_cast<size_t>(chunk * flat_.element_size()));
  std::vector<char> part_bytes(sum_bytes.size());
  const at::Tensor sum = at::from_blob(sum_bytes.data(), {chunk}, flat_.options());
  const at::Tensor part = at::from_blob(part_bytes.data(), {chunk}, flat_.options());
  for (int64_t begin = slice.begin; begin < slice.end; begin += chunk) {
    const int64_t length = std::min(chunk, slice.end - begin);
    const at::Tensor own = flat_.narrow(0, begin, length);
    const at::Tensor total = sum.narrow(0, 0, length);
    for (size_t i = 0; i < members_.size(); ++i) {
      const at::Tensor term = i == own_ ? own : part.narrow(0, 0, length);
      if (i != own_) {
        members_[i].peer->read(parts[i], begin * flat_.element_size(), term.data_ptr(),
                               length * flat_.element_size());
      }
      if (i == 0) {
        total.copy_(term);
      } else {
        total.add_(term);
      }
    }
    own.copy_(total);
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i != own_) members_[i].peer->take(parts[i]);
  }
}

/// The others' slices. Whoever offers its sum has read all that it added.
void LocalSum::take_sums() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i == own_) continue;
    const uint64_t number =
        waiting_.await_offer(*members_[i].peer, members_[i].tag + kSums, bytes());
    const Slice slice = slice_of(i);
    const int64_t begin = slice.begin * flat_.element_size();
    members_[i].peer->read(number, begin, static_cast<char*>(flat_.data_ptr()) + begin,
                           (slice.end - slice.begin) * flat_.element_size());
    members_[i].peer->take(number);
  }
}

}  // namespace penstock
