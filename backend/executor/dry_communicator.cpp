#include "backend/executor/dry_communicator.hpp"

#include <utility>

namespace penstock {

namespace {

/// Keeps its tensor as long as a real one does, so that the step takes as much memory.
class DryTransfer : public Transfer {
 public:
  explicit DryTransfer(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  void wait() override { tensor_.reset(); }

 private:
  at::Tensor tensor_;
};

class DryCommunicator : public Communicator {
 public:
  explicit DryCommunicator(const Communicator& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  bool receives_spin() const override { return real_.receives_spin(); }
  std::unique_ptr<Transfer> send(PeerChannel /*channel*/, const at::Tensor& tensor,
                                 int /*tag*/) override {
    return std::make_unique<DryTransfer>(tensor);
  }
  std::unique_ptr<Transfer> receive(PeerChannel /*channel*/, at::Tensor& tensor,
                                    int /*tag*/) override {
    tensor.zero_();
    return std::make_unique<DryTransfer>(tensor);
  }
  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& /*ranks*/) override {
    return std::make_unique<DryTransfer>(tensor);
  }
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& /*ranks*/) override {
    at::Tensor(tensor).zero_();
    return std::make_unique<DryTransfer>(tensor);
  }
  void connect_sums(const std::vector<int>& /*ranks*/) override {}
  void barrier() override {}

 private:
  const Communicator& real_;
};

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(const Communicator& real) {
  return std::make_unique<DryCommunicator>(real);
}

}  // namespace penstock
