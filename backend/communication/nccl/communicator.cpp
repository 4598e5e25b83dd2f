#include "backend/communication/nccl/communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "backend/communication/nccl/collective_lanes.hpp"
#include "backend/communication/nccl/lane.hpp"
#include "base/error.hpp"

namespace penstock {

namespace {

/// A GPU runs 32 streams concurrently (CUDA_DEVICE_MAX_CONNECTIONS); beyond that one waits for
/// another, which may spin. Four are left for compute, copies and sums.
constexpr size_t kMostLanes = 28;

/// For NCCL to free its communicators, where nothing has failed.
constexpr double kEnd_s = 5;

/// No step that makes progress takes so long.
constexpr double kStall_s = 60;

class Nccl;

/// Keeps its tensor until the computing stream has been told to wait.
class NcclTransfer : public Transfer {
 public:
  NcclTransfer(Nccl& owner, Lane& lane, at::Tensor tensor, EventPool::Event done)
      : owner_(owner), lane_(lane), tensor_(std::move(tensor)), done_(std::move(done)) {}
  void wait() override;

 private:
  Nccl& owner_;
  Lane& lane_;
  at::Tensor tensor_;
  EventPool::Event done_;
};

class Nccl final : public Communicator {
 public:
  Nccl(NcclApi& api, SharedStore& store, std::unique_ptr<Communicator> host,
       const std::vector<LaneKey>& lanes, const NcclOptions& options)
      : api_(api),
        store_(store),
        host_(std::move(host)),
        options_(options),
        events_(api),
        sums_(api, store, events_, host_->rank(),
              {"sum", false, options.max_ctas, options.deadline_s}),
        groups_(api, store, events_, host_->rank(),
                {"group", true, options.group_ctas, options.deadline_s}) {
    const auto own = std::ranges::count_if(
        lanes, [&](const LaneKey& lane) { return lane.from == rank() || lane.to == rank(); });
    if (own > static_cast<std::ptrdiff_t>(kMostLanes)) {
      throw InputError(
          fmt::format("rank {}", rank()),
          fmt::format("exchanges values in {} lanes, and a GPU runs {} at a time", own, kMostLanes),
          "Plan for fewer stages, or with splits that fewer values skip over.");
    }
    guard([&] {
      for (const auto& round : rounds_of(lanes)) {
        for (const LaneKey& lane : round) {
          if (lane.from == rank() || lane.to == rank()) open(lane);
        }
        if (!options_.after_round) continue;
        host_->barrier();
        options_.after_round();
        host_->barrier();
      }
    });
  }
  ~Nccl() override { end(kEnd_s); }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    if (tensor.device() != options_.device) return host_->send(channel, tensor, tag);
    return guard([&] {
      return post(lane({rank(), channel.peer, channel.gradients}), true, tensor);
    });
  }

  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    if (tensor.device() != options_.device) return host_->receive(channel, tensor, tag);
    return guard([&] {
      return post(lane({channel.peer, rank(), channel.gradients}), false, tensor);
    });
  }

  /// Behind what the computing stream has so far, which made the tensor, and beside what it gets
  /// from then on.
  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    if (tensor.device() != options_.device) return host_->start_all_reduce(tensor, ranks);
    return start(tensor, [&] { return sums_.all_reduce(tensor, ranks); });
  }

  std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                 const std::vector<int>& ranks) override {
    if (tensor.device() != options_.device) return host_->start_reduce_scatter(tensor, ranks);
    return start(tensor, [&] { return sums_.reduce_scatter(tensor, ranks); });
  }

  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    if (tensor.device() != options_.device) return host_->start_all_gather(tensor, ranks);
    return start(tensor, [&] { return sums_.all_gather(tensor, ranks); });
  }

  void all_reduce(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    if (!in_group(tensor, ranks)) return Communicator::all_reduce(tensor, ranks);
    guard([&] { groups_.all_reduce(tensor, ranks); });
  }

  void reduce_scatter(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    if (!in_group(tensor, ranks)) return Communicator::reduce_scatter(tensor, ranks);
    guard([&] { groups_.reduce_scatter(tensor, ranks); });
  }

  void all_gather(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    if (!in_group(tensor, ranks)) return Communicator::all_gather(tensor, ranks);
    guard([&] { groups_.all_gather(tensor, ranks); });
  }

  void all_to_all(const at::Tensor& sent, const at::Tensor& received,
                  const std::vector<int>& ranks) override {
    if (!in_group(sent, ranks)) return Communicator::all_to_all(sent, received, ranks);
    guard([&] { groups_.all_to_all(sent, received, ranks); });
  }

  /// NCCL connects at the first sum.
  void connect_sums(const std::vector<int>& ranks) override {
    guard([&] { wait_on_host(sums_.all_reduce(one(), ranks).done, -1, ""); });
  }

  void connect_group(const std::vector<int>& ranks) override {
    if (groups_.has(ranks)) return;
    guard([&] { wait_on_host(groups_.connect(ranks, options_.device), -1, ""); });
  }

  void barrier() override { host_->barrier(); }
  bool receives_spin() const override { return true; }

  void synchronise() override {
    guard([&] { wait_on_host(events_.record(api_.compute_stream()), -1, ""); });
  }

  /// Waits for the transfer on the computing stream.
  void await(Lane& lane, const EventPool::Event& done) {
    guard([&] {
      lane.check("a transfer");
      api_.wait(api_.compute_stream(), done.get());
    });
  }

 private:
  /// Runs `action`; where it fails, everything in flight on this rank is aborted.
  template <class Action>
  std::invoke_result_t<Action> guard(Action action) {
    if (ended_) throw PeerError(-1, "transfers have ended with an earlier failure");
    try {
      return action();
    } catch (...) {
      end(0);  // the failure is reported at once, and then the process ends
      throw;
    }
  }

  void end(double timeout_s) noexcept {
    ended_ = true;
    std::vector<NcclApi::Comm> comms;
    for_each_lane([&](Lane& lane) {
      if (lane.comm() == nullptr) return;
      comms.push_back(lane.comm());
      lane.forget();
    });
    if (!comms.empty()) api_.abort(comms, timeout_s);
  }

  template <class Action>
  void for_each_lane(Action action) {
    for (auto& [key, lane] : lanes_) action(lane);
    sums_.for_each(action);
    groups_.for_each(action);
  }

  /// Makes the lane and sends a byte over it, since NCCL connects at the first message.
  void open(const LaneKey& key) {
    const bool sends = key.from == rank();
    const int peer = sends ? key.to : key.from;
    Lane& lane = lanes_.try_emplace(key, api_, to_string(key), peer).first->second;
    lane.connect(store_, 2, sends ? 0 : 1, options_.max_ctas, options_.deadline_s);
    const at::Tensor byte = at::zeros({1}, at::TensorOptions(at::kByte).device(options_.device));
    wait_on_host(enqueue(lane, sends, byte), peer, to_string(key));
  }

  Lane& lane(const LaneKey& key) {
    const auto found = lanes_.find(key);
    TORCH_CHECK(found != lanes_.end(), "the plan has no lane ", to_string(key));
    return found->second;
  }

  at::Tensor one() const {
    return at::zeros({1}, at::TensorOptions(at::kFloat).device(options_.device));
  }

  bool in_group(const at::Tensor& tensor, const std::vector<int>& ranks) const {
    TORCH_CHECK(tensor.is_contiguous(), "a conversion of a tensor that is not contiguous");
    return tensor.device() == options_.device && groups_.has(ranks);
  }

  template <class Enqueue>
  std::unique_ptr<Transfer> start(const at::Tensor& tensor, const Enqueue& enqueue) {
    TORCH_CHECK(tensor.is_contiguous(), "a sum of a tensor that is not contiguous");
    return guard([&]() -> std::unique_ptr<Transfer> {
      auto [lane, done] = enqueue();
      return std::make_unique<NcclTransfer>(*this, lane, tensor, std::move(done));
    });
  }

  /// Tensors are sent as bytes, whatever their type: NCCL has no booleans.
  EventPool::Event enqueue(Lane& lane, bool sends, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_contiguous(), "a transfer of a tensor that is not contiguous");
    const int peer = sends ? 1 : 0;  // within the lane
    return lane.enqueue(
        events_, sends ? "a send" : "a receive", options_.deadline_s,
        [&](NcclApi::Comm comm, NcclApi::Stream stream) {
          return sends
                     ? api_.send(comm, tensor.const_data_ptr(), tensor.nbytes(), peer, stream)
                     : api_.receive(comm, tensor.mutable_data_ptr(), tensor.nbytes(), peer, stream);
        });
  }

  std::unique_ptr<Transfer> post(Lane& lane, bool sends, const at::Tensor& tensor) {
    return std::make_unique<NcclTransfer>(*this, lane, tensor, enqueue(lane, sends, tensor));
  }

  /// Watches all lanes while it waits: a kernel whose peer is gone spins forever. The first message
  /// of a new lane has a deadline; `peer` is -1 otherwise.
  void wait_on_host(const EventPool::Event& event, int peer, const std::string& name) {
    const double start_s = api_.now_s();
    double told_s = 0;
    while (!api_.passed(event.get())) {
      for_each_lane([](Lane& lane) { lane.check("a transfer"); });
      const double waited_s = api_.now_s() - start_s;
      if (peer >= 0 && waited_s > options_.deadline_s) {
        throw PeerError(peer, fmt::format("lane {}: rank {} did not answer in {:.0f} s", name, peer,
                                          options_.deadline_s));
      }
      if (peer < 0 && waited_s - told_s > kStall_s) tell_stall(told_s = waited_s);
      api_.pause(waited_s);
    }
  }

  void tell_stall(double waited_s) {
    if (!options_.on_stall) return;
    std::vector<std::string> names;
    for_each_lane([&](Lane& lane) {
      if (lane.under_way()) names.push_back(lane.name());
    });
    options_.on_stall(
        fmt::format("has waited {:.0f} s for its GPU; under way: {}", waited_s,
                    names.empty() ? "no transfer" : fmt::format("{}", fmt::join(names, ", "))));
  }

  NcclApi& api_;
  SharedStore& store_;
  std::unique_ptr<Communicator> host_;
  NcclOptions options_;
  EventPool events_;
  bool ended_ = false;
  std::map<LaneKey, Lane> lanes_;
  CollectiveLanes sums_, groups_;
};

void NcclTransfer::wait() {
  owner_.await(lane_, done_);
  tensor_.reset();  // the memory is reused later in the computing stream
}

}  // namespace

std::unique_ptr<Communicator> make_nccl(NcclApi& api, SharedStore& store,
                                        std::unique_ptr<Communicator> host,
                                        const std::vector<LaneKey>& lanes,
                                        const NcclOptions& options) {
  return std::make_unique<Nccl>(api, store, std::move(host), lanes, options);
}

}  // namespace penstock
