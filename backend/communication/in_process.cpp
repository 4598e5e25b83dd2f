// Ranks that are threads of one process. A send leaves its tensor at a meeting point; the receiver
// copies it from there, so that the two never share memory.
#include <algorithm>
#include <condition_variable>
#include <functional>
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
  struct Collective {
    std::map<int, at::Tensor> given;  // by rank
    at::Tensor result;
    size_t taken = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, at::Tensor> messages;
  std::map<std::pair<std::vector<int>, int64_t>, Collective> collectives;  // ranks, count
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

/// The part of a tensor that belongs to a rank, of as many equal parts as there are ranks.
at::Tensor part_of(const at::Tensor& tensor, const std::vector<int>& ranks, int rank) {
  const auto count = static_cast<int64_t>(ranks.size());
  const auto place = std::ranges::find(ranks, rank) - ranks.begin();
  TORCH_CHECK(tensor.numel() % count == 0, tensor.numel(), " elements for ", count, " ranks");
  const int64_t length = tensor.numel() / count;
  return tensor.view(-1).narrow(0, place * length, length);
}

/// Adds in ascending order of ranks: the same bits on each of them.
at::Tensor sum_of(const std::map<int, at::Tensor>& given) {
  at::Tensor sum = given.begin()->second.clone();
  for (auto part = std::next(given.begin()); part != given.end(); ++part) sum.add_(part->second);
  return sum;
}

at::Tensor joined(const std::map<int, at::Tensor>& given) {
  std::vector<at::Tensor> parts;
  for (const auto& [rank, part] : given) parts.push_back(part);
  return at::cat(parts);
}

/// Makes something of what all ranks have given, once, and copies it or a part of it.
class Collecting : public Transfer {
 public:
  using Key = std::pair<std::vector<int>, int64_t>;
  using Make = at::Tensor (*)(const std::map<int, at::Tensor>& given);
  using Take = std::function<void(const at::Tensor& made)>;
  Collecting(std::shared_ptr<Meeting> meeting, Key key, Make make, Take take)
      : meeting_(std::move(meeting)), key_(std::move(key)), make_(make), take_(std::move(take)) {}
  void wait() override {
    std::unique_lock lock(meeting_->mutex);
    Meeting::Collective& collective = meeting_->collectives.at(key_);
    for (const int peer : key_.first) {
      meeting_->await(lock, peer, [&] { return collective.given.contains(peer); });
    }
    if (!collective.result.defined()) collective.result = make_(collective.given);
    take_(collective.result);
    if (++collective.taken == key_.first.size()) meeting_->collectives.erase(key_);
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  Key key_;
  Make make_;
  Take take_;
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
    return collect(ranks, tensor.clone(), sum_of,
                   [tensor](const at::Tensor& sum) { at::Tensor(tensor).copy_(sum); });
  }

  /// The others' parts stay as they are.
  std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                 const std::vector<int>& ranks) override {
    const at::Tensor own = part_of(tensor, ranks, rank_);
    return collect(ranks, tensor.clone(), sum_of, [=, this](const at::Tensor& sum) {
      at::Tensor(own).copy_(part_of(sum, ranks, rank_));
    });
  }

  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    return collect(
        ranks, part_of(tensor, ranks, rank_).clone(), joined,
        [tensor](const at::Tensor& all) { at::Tensor(tensor).copy_(all.view(tensor.sizes())); });
  }

  void connect_sums(const std::vector<int>& /*ranks*/) override {}

 private:
  std::unique_ptr<Transfer> collect(const std::vector<int>& ranks, at::Tensor given,
                                    Collecting::Make make, Collecting::Take take) {
    const std::scoped_lock lock(meeting_->mutex);
    const Collecting::Key key{ranks, count_[ranks]++};
    meeting_->collectives[key].given[rank_] = std::move(given);
    meeting_->changed.notify_all();
    return std::make_unique<Collecting>(meeting_, key, make, std::move(take));
  }

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
