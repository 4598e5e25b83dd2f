// Ranks that are threads of one process. A send leaves its tensor at a meeting point; the receiver
// copies it from there, so that the two never share memory.
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "backend/communication/communicator.hpp"

namespace penstock {

namespace {

/// The meeting point of the ranks.
struct Meeting {
  using Key = std::tuple<int, int, bool, int>;  // from, to, gradients, tag
  struct Reduction {
    std::map<int, at::Tensor> parts;  // by rank
    at::Tensor sum;
    size_t taken = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, at::Tensor> messages;
  std::map<std::pair<std::vector<int>, int64_t>, Reduction> reductions;  // ranks, count
  std::vector<bool> gone;

  /// Waits for `ready`; throws PeerError if `peer`, which it depends on, is gone.
  template <typename Ready>
  void await(std::unique_lock<std::mutex>& lock, int peer, const Ready& ready) {
    changed.wait(lock, [&] { return ready() || gone[peer]; });
    if (!ready()) throw PeerError(peer, "rank " + std::to_string(peer) + " is gone");
  }
};

class Sending : public Transfer {
 public:
  Sending(std::shared_ptr<Meeting> meeting, Meeting::Key key)
      : meeting_(std::move(meeting)), key_(std::move(key)) {}
  void wait() override {
    std::unique_lock lock(meeting_->mutex);
    meeting_->await(lock, std::get<1>(key_), [&] { return !meeting_->messages.contains(key_); });
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  Meeting::Key key_;
};

class Receiving : public Transfer {
 public:
  Receiving(std::shared_ptr<Meeting> meeting, Meeting::Key key, at::Tensor tensor)
      : meeting_(std::move(meeting)), key_(std::move(key)), tensor_(std::move(tensor)) {}
  void wait() override {
    std::unique_lock lock(meeting_->mutex);
    meeting_->await(lock, std::get<0>(key_), [&] { return meeting_->messages.contains(key_); });
    const at::Tensor& message = meeting_->messages.at(key_);
    TORCH_CHECK(
        message.sizes() == tensor_.sizes() && message.scalar_type() == tensor_.scalar_type(),
        "rank ", std::get<0>(key_), " sent ", message.sizes(), ", expected ", tensor_.sizes());
    tensor_.copy_(message);
    meeting_->messages.erase(key_);
    meeting_->changed.notify_all();
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  Meeting::Key key_;
  at::Tensor tensor_;
};

/// Adds in ascending order of ranks: the same bits on each of them.
class Summing : public Transfer {
 public:
  using Key = std::pair<std::vector<int>, int64_t>;
  Summing(std::shared_ptr<Meeting> meeting, Key key, at::Tensor tensor)
      : meeting_(std::move(meeting)), key_(std::move(key)), tensor_(std::move(tensor)) {}
  void wait() override {
    std::unique_lock lock(meeting_->mutex);
    Meeting::Reduction& reduction = meeting_->reductions.at(key_);
    for (const int peer : key_.first) {
      meeting_->await(lock, peer, [&] { return reduction.parts.contains(peer); });
    }
    if (!reduction.sum.defined()) reduction.sum = sum_of(reduction.parts);
    tensor_.copy_(reduction.sum);
    if (++reduction.taken == key_.first.size()) meeting_->reductions.erase(key_);
  }

 private:
  static at::Tensor sum_of(const std::map<int, at::Tensor>& parts) {
    at::Tensor sum = parts.begin()->second.clone();
    for (auto part = std::next(parts.begin()); part != parts.end(); ++part) sum.add_(part->second);
    return sum;
  }

  std::shared_ptr<Meeting> meeting_;
  Key key_;
  at::Tensor tensor_;
};

class InProcess : public Communicator {
 public:
  InProcess(std::shared_ptr<Meeting> meeting, int rank, int size)
      : meeting_(std::move(meeting)), rank_(rank), size_(size) {}
  ~InProcess() override {
    const std::scoped_lock lock(meeting_->mutex);
    meeting_->gone[rank_] = true;
    meeting_->changed.notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    const Meeting::Key key{rank_, channel.peer, channel.gradients, tag};
    const std::scoped_lock lock(meeting_->mutex);
    const bool added = meeting_->messages.emplace(key, tensor).second;
    TORCH_CHECK(added, "tag ", tag, " is already on its way to rank ", channel.peer);
    meeting_->changed.notify_all();
    return std::make_unique<Sending>(meeting_, key);
  }

  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    return std::make_unique<Receiving>(
        meeting_, Meeting::Key{channel.peer, rank_, channel.gradients, tag}, tensor);
  }

  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    const std::scoped_lock lock(meeting_->mutex);
    const Summing::Key key{ranks, count_[ranks]++};
    meeting_->reductions[key].parts[rank_] = tensor.clone();
    meeting_->changed.notify_all();
    return std::make_unique<Summing>(meeting_, key, tensor);
  }

  void connect_sums(const std::vector<int>& /*ranks*/) override {}

  void barrier() override {
    std::vector<int> all(size_);
    for (int i = 0; i < size_; ++i) all[i] = i;
    all_reduce(at::zeros({1}), all);
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_, size_;
  std::map<std::vector<int>, int64_t> count_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_in_process(int size) {
  auto meeting = std::make_shared<Meeting>();
  meeting->gone.resize(size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<InProcess>(meeting, rank, size));
  }
  return communicators;
}

}  // namespace penstock
