// A communicator that passes on what is asked of it: tests derive from it what they look at.
#pragma once

#include "backend/communication/communicator.hpp"

namespace penstock::test {

/// Forwards every call.
class Forwarding : public Communicator {
 public:
  int rank() const override { return inner().rank(); }
  int size() const override { return inner().size(); }
  std::unique_ptr<Transfer> send(PeerChannel channel, const at::Tensor& tensor, int tag) override {
    return inner().send(channel, tensor, tag);
  }
  std::unique_ptr<Transfer> receive(PeerChannel channel, at::Tensor& tensor, int tag) override {
    return inner().receive(channel, tensor, tag);
  }
  std::unique_ptr<Transfer> start_all_reduce(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    return inner().start_all_reduce(tensor, ranks);
  }
  std::unique_ptr<Transfer> start_reduce_scatter(const at::Tensor& tensor,
                                                 const std::vector<int>& ranks) override {
    return inner().start_reduce_scatter(tensor, ranks);
  }
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& tensor,
                                             const std::vector<int>& ranks) override {
    return inner().start_all_gather(tensor, ranks);
  }
  void all_reduce(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    inner().all_reduce(tensor, ranks);
  }
  void reduce_scatter(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    inner().reduce_scatter(tensor, ranks);
  }
  void all_gather(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    inner().all_gather(tensor, ranks);
  }
  void all_to_all(const at::Tensor& sent, const at::Tensor& received,
                  const std::vector<int>& ranks) override {
    inner().all_to_all(sent, received, ranks);
  }
  void connect_sums(const std::vector<int>& ranks) override { inner().connect_sums(ranks); }
  void connect_group(const std::vector<int>& ranks) override { inner().connect_group(ranks); }
  void barrier() override { inner().barrier(); }
  void synchronise() override { inner().synchronise(); }
  bool receives_spin() const override { return inner().receives_spin(); }

 private:
  virtual Communicator& inner() const = 0;
};

}  // namespace penstock::test
