#include "backend/communication/local/local.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend/communication/local/peers.hpp"
#include "backend/communication/local/sum.hpp"
#include "backend/communication/local/waiting.hpp"

namespace penstock {

namespace {

class LocalSend : public Transfer {
 public:
  LocalSend(LocalWaiting& waiting, LocalPeer& peer, const at::Tensor& tensor, int tag)
      : waiting_(waiting),
        peer_(peer),
        tensor_(tensor),
        number_(peer.offer(offer_of(tensor, tag))) {}
  void wait() override {
    waiting_.until(peer_, [&] { return peer_.taken(number_); });
  }

 private:
  LocalWaiting& waiting_;
  LocalPeer& peer_;
  at::Tensor tensor_;
  uint64_t number_;
};

class LocalReceive : public Transfer {
 public:
  LocalReceive(LocalWaiting& waiting, LocalPeer& peer, at::Tensor tensor, int tag)
      : waiting_(waiting), peer_(peer), tensor_(std::move(tensor)), tag_(tag) {}
  void wait() override {
    const auto bytes = static_cast<int64_t>(tensor_.nbytes());
    const uint64_t number = waiting_.await_offer(peer_, tag_, bytes);
    peer_.read(number, 0, tensor_.data_ptr(), bytes);
    peer_.take(number);
  }

 private:
  LocalWaiting& waiting_;
  LocalPeer& peer_;
  at::Tensor tensor_;
  int tag_;
};

class Local : public Communicator {
 public:
  Local(const Seat& seat, std::unique_ptr<Communicator> remote, const SpareTime* spare)
      : remote_(std::move(remote)), local_(find_local_ranks(seat)), waiting_(local_, spare) {}

  int rank() const override { return remote_->rank(); }
  int size() const override { return remote_->size(); }

  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    const auto peer = local_.peers.find(channel.peer);
    if (peer == local_.peers.end()) return remote_->send(channel, tensor, tag);
    return std::make_unique<LocalSend>(waiting_, *peer->second, tensor, tag);
  }

  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    const auto peer = local_.peers.find(channel.peer);
    if (peer == local_.peers.end()) return remote_->receive(channel, tensor, tag);
    return std::make_unique<LocalReceive>(waiting_, *peer->second, tensor, tag);
  }

  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    if (!all_here(ranks)) return remote_->start_all_reduce(tensor, ranks);
    return sum(LocalSum::Halves::both, tensor, ranks);
  }

  std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                 const std::vector<int>& ranks) override {
    if (!all_here(ranks)) return remote_->start_reduce_scatter(tensor, ranks);
    return sum(LocalSum::Halves::reduce_scatter, tensor, ranks);
  }

  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    if (!all_here(ranks)) return remote_->start_all_gather(tensor, ranks);
    return sum(LocalSum::Halves::all_gather, tensor, ranks);
  }

  void connect_sums(const std::vector<int>& ranks) override {
    if (!all_here(ranks)) remote_->connect_sums(ranks);
  }

  bool receiver_copies(int peer) const override { return local_.peers.contains(peer); }

 private:
  std::unique_ptr<Transfer> sum(LocalSum::Halves halves, const at::Tensor& tensor,
                                const std::vector<int>& ranks) {
    return std::make_unique<LocalSum>(halves, local_, waiting_, rank(), ranks, tensor);
  }
  bool all_here(const std::vector<int>& ranks) const {
    return std::ranges::all_of(
        ranks, [&](int other) { return other == rank() || local_.peers.contains(other); });
  }

  const std::unique_ptr<Communicator> remote_;
  LocalRanks local_;
  LocalWaiting waiting_;
};

}  // namespace

std::unique_ptr<Communicator> make_local(const Seat& seat, std::unique_ptr<Communicator> remote,
                                         const SpareTime* spare) {
  return std::make_unique<Local>(seat, std::move(remote), spare);
}

}  // namespace penstock
