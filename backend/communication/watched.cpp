#include "backend/communication/watched.hpp"

#include <utility>

namespace penstock {

namespace {

/// Waits of one communicator.
struct Waits {
  SharedProgress& progress;
  SpareTime& spare;
  std::function<void()> begin;
};

class WhileWaiting {
 public:
  WhileWaiting(const Waits& waits, int peer)
      : progress_(waits.progress), before_(progress_.activity()), lent_(waits.spare) {
    progress_.set(Activity{Activity::Kind::waits, peer});
    waits.begin();
  }
  ~WhileWaiting() { progress_.set(before_); }
  WhileWaiting(const WhileWaiting&) = delete;
  WhileWaiting& operator=(const WhileWaiting&) = delete;

 private:
  SharedProgress& progress_;
  Activity before_;
  SpareTime::Lent lent_;
};

class WatchedTransfer : public Transfer {
 public:
  WatchedTransfer(std::unique_ptr<Transfer> transfer, const Waits& waits, int peer)
      : transfer_(std::move(transfer)), waits_(waits), peer_(peer) {}
  void wait() override {
    const WhileWaiting waiting(waits_, peer_);
    transfer_->wait();
  }

 private:
  std::unique_ptr<Transfer> transfer_;
  const Waits& waits_;
  int peer_;
};

class Watched : public Communicator {
 public:
  Watched(std::unique_ptr<Communicator> communicator, Waits waits)
      : inner_(std::move(communicator)), waits_(std::move(waits)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    return watch(inner_->send(channel, tensor, tag), channel.peer);
  }
  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    return watch(inner_->receive(channel, tensor, tag), channel.peer);
  }
  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    return watch(inner_->start_all_reduce(tensor, ranks), -1);
  }
  std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                 const std::vector<int>& ranks) override {
    return watch(inner_->start_reduce_scatter(tensor, ranks), -1);
  }
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    return watch(inner_->start_all_gather(tensor, ranks), -1);
  }
  void all_reduce(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    const WhileWaiting waiting(waits_, -1);
    inner_->all_reduce(tensor, ranks);
  }
  void connect_sums(const std::vector<int>& ranks) override {
    const WhileWaiting waiting(waits_, -1);
    inner_->connect_sums(ranks);
  }
  void connect_group(const std::vector<int>& ranks) override {
    const WhileWaiting waiting(waits_, -1);
    inner_->connect_group(ranks);
  }
  void barrier() override {
    const WhileWaiting waiting(waits_, -1);
    inner_->barrier();
  }
  void synchronise() override { inner_->synchronise(); }
  bool receiver_copies(int peer) const override { return inner_->receiver_copies(peer); }
  bool receives_spin() const override { return inner_->receives_spin(); }

 private:
  std::unique_ptr<Transfer> watch(std::unique_ptr<Transfer> transfer, int peer) const {
    return std::make_unique<WatchedTransfer>(std::move(transfer), waits_, peer);
  }
  std::unique_ptr<Communicator> inner_;
  const Waits waits_;
};

}  // namespace

std::unique_ptr<Communicator> make_watched(std::unique_ptr<Communicator> communicator,
                                           SharedProgress& progress, SpareTime& spare,
                                           std::function<void()> on_wait) {
  return std::make_unique<Watched>(std::move(communicator),
                                   Waits{progress, spare, std::move(on_wait)});
}

}  // namespace penstock
