#include "backend/communication/gloo.hpp"

#include <sched.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace penstock {

namespace {

using c10d::ProcessGroupGloo;
constexpr auto kArrival = std::chrono::minutes(10);      // for all ranks to start
constexpr auto kForever = std::chrono::hours(24 * 365);  // a wait that times out closes the pair

/// The first line of the message: the rest of a c10 error is a stack trace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

class TcpStore : public SharedStore {
 public:
  explicit TcpStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override {
    ask(key, [&] { store_->set(key, value); });
  }
  std::string get(const std::string& key) override {
    return ask(key, [&] { return store_->get_to_str(key); });
  }
  std::optional<std::string> get_within(const std::string& key, double seconds) override {
    return ask(key, [&]() -> std::optional<std::string> {
      try {
        store_->wait({key}, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3) + 1));
      } catch (const c10::DistStoreError&) {  // a timeout; a lost store is another error
        return std::nullopt;
      }
      return store_->get_to_str(key);
    });
  }
  void append(const std::string& key, const std::string& value) override {
    ask(key, [&] { store_->append(key, {value.begin(), value.end()}); });
  }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  template <typename Question>
  auto ask(const std::string& key, const Question& question) -> decltype(question()) {
    try {
      return question();
    } catch (const std::exception& error) {
      throw PeerError(0,
                      "the store of rank 0 did not answer for " + key + ": " + first_line(error));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
};

class GlooTransfer : public Transfer {
 public:
  GlooTransfer(c10::intrusive_ptr<c10d::Work> work, at::Tensor tensor, int peer)
      : work_(std::move(work)), tensor_(std::move(tensor)), peer_(peer) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw PeerError(peer_, "lost rank " + std::to_string(peer_) + ": " + first_line(error));
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor tensor_;
  int peer_;
};

class GlooSum : public Transfer {
 public:
  explicit GlooSum(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw PeerError(-1, "a sum over ranks failed: " + first_line(error));
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;  // keeps the tensor
};

/// Messages to and from all other ranks of a group.
class GlooGather : public Transfer {
 public:
  explicit GlooGather(std::vector<std::unique_ptr<Transfer>> transfers)
      : transfers_(std::move(transfers)) {}
  void wait() override {
    for (const auto& transfer : transfers_) transfer->wait();
  }

 private:
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

/// While it lives, new threads get the normal scheduling policy. Gloo's threads must preempt the
/// computing thread as soon as there is something to send or to add: under the batch policy they
/// would wait for the end of a time slice, some 4 ms, which made a 1F1B step of 150 ms on two ranks
/// 3-8 % longer.
class NormalScheduling {
 public:
  NormalScheduling() : policy_(sched_getscheduler(0)) { set(SCHED_OTHER); }
  ~NormalScheduling() { set(policy_); }
  NormalScheduling(const NormalScheduling&) = delete;
  NormalScheduling& operator=(const NormalScheduling&) = delete;

 private:
  static void set(int policy) {
    const sched_param parameter{};
    sched_setscheduler(0, policy, &parameter);  // a failure only costs speed
  }
  int policy_;
};

std::shared_ptr<gloo::transport::Device> make_device(const std::string& address) {
  const NormalScheduling normal;
  return ProcessGroupGloo::createDeviceForHostname(address);
}

class Gloo : public Communicator {
 public:
  Gloo(c10::intrusive_ptr<c10d::Store> store, int rank, int size, const std::string& address)
      : store_(std::move(store)),
        rank_(rank),
        size_(size),
        device_(make_device(address)),
        transfers_(make_group("transfers", rank, size)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    std::vector<at::Tensor> tensors{tensor};
    return post(channel.peer, tensor, [&] { return transfers_->send(tensors, channel.peer, tag); });
  }

  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    std::vector<at::Tensor> tensors{tensor};
    return post(channel.peer, tensor, [&] { return transfers_->recv(tensors, channel.peer, tag); });
  }

  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    std::vector<at::Tensor> tensors{tensor};
    return std::make_unique<GlooSum>(group(ranks).allreduce(tensors));
  }

  /// Each part goes straight to where it belongs. Gloo's own gathers into memory of its own first.
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    ProcessGroupGloo& members = group(ranks);
    const int tag = gathers_[ranks]++;
    const auto count = static_cast<int64_t>(ranks.size());
    TORCH_CHECK(tensor.numel() % count == 0, tensor.numel(), " elements for ", count, " ranks");
    std::vector<at::Tensor> parts = tensor.view({count, -1}).unbind();
    const auto own = static_cast<size_t>(members.getRank());
    std::vector<at::Tensor> sent{parts[own]};
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (size_t member = 0; member < parts.size(); ++member) {
      if (member == own) continue;
      const auto peer = static_cast<int>(member);
      std::vector<at::Tensor> received{parts[member]};
      transfers.push_back(
          post(ranks[member], parts[member], [&] { return members.recv(received, peer, tag); }));
      transfers.push_back(
          post(ranks[member], parts[own], [&] { return members.send(sent, peer, tag); }));
    }
    return std::make_unique<GlooGather>(std::move(transfers));
  }

  void connect_sums(const std::vector<int>& ranks) override { group(ranks); }

 private:
  template <typename Start>
  std::unique_ptr<Transfer> post(int peer, const at::Tensor& tensor, const Start& start) {
    try {
      return std::make_unique<GlooTransfer>(start(), tensor, peer);
    } catch (const c10::Error& error) {
      throw;  // a bug
    } catch (const std::exception& error) {
      throw PeerError(peer, "lost rank " + std::to_string(peer) + ": " + first_line(error));
    }
  }

  /// Connects with all of them.
  c10::intrusive_ptr<ProcessGroupGloo> make_group(const std::string& name, int rank, int size) try {
    const NormalScheduling normal;
    auto options = ProcessGroupGloo::Options::create(std::chrono::milliseconds(kForever));
    options->devices.push_back(device_);
    options->threads = 1;
    return c10::make_intrusive<ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo/" + name, store_), rank, size, options);
  } catch (const std::exception& error) {
    throw PeerError(-1, "cannot connect to all ranks: " + first_line(error));
  }

  /// Groups are made at their first use, which is in the same order on all their ranks.
  ProcessGroupGloo& group(const std::vector<int>& ranks) {
    auto& found = groups_[ranks];
    if (!found) {
      std::ostringstream name;
      for (const int rank : ranks) name << rank << '-';
      const auto self = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
      found = make_group(name.str(), static_cast<int>(self), static_cast<int>(ranks.size()));
    }
    return *found;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::shared_ptr<gloo::transport::Device> device_;
  c10::intrusive_ptr<ProcessGroupGloo> transfers_;
  std::map<std::vector<int>, c10::intrusive_ptr<ProcessGroupGloo>> groups_;
  std::map<std::vector<int>, int> gathers_;  // begun, by ranks
};

/// Explains why there is no store at that address.
[[noreturn]] void refuse_address(const StoreAddress& address, const std::exception& error) {
  if (address.serve) {
    throw InputError("MASTER_PORT",
                     "the store cannot listen on port " + std::to_string(address.port) + ": " +
                         first_line(error),
                     "Set MASTER_PORT, the same for all ranks, to a port that is free.");
  }
  throw PeerError(0,
                  "no store at " + address.host + ":" + std::to_string(address.port) +
                      " within the time given: rank 0, which hosts it, has not started, its "
                      "address is another (MASTER_ADDR, MASTER_PORT), or a firewall is between (" +
                      first_line(error) + ")");
}

}  // namespace

std::unique_ptr<SharedStore> open_tcp_store(StoreAddress& address) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(address.port);
  options.isServer = address.serve;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(address.timeout_s * 1e3));
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    address.port = store->getPort();
    store->setTimeout(kArrival);
    return std::make_unique<TcpStore>(
        c10::make_intrusive<c10d::PrefixStore>("penstock/" + address.prefix, std::move(store)));
  } catch (const c10::DistError& error) {
    refuse_address(address, error);
  }
}

std::unique_ptr<Communicator> make_gloo(SharedStore& store, int rank, int size,
                                        const std::string& address) {
  return std::make_unique<Gloo>(dynamic_cast<TcpStore&>(store).store(), rank, size, address);
}

}  // namespace penstock
