#include "backend/executor/transmission.hpp"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <memory>

#include "pipeline/plan/sharing.hpp"

namespace penstock {

namespace {

/// Gradients go the way of gradients, values that of activations.
Channel gradients_with(int peer) { return {peer, true}; }
Channel values_with(int peer) { return {peer, false}; }

void send_gradient(const Transmission& shared, TensorStore& store, Communicator& communicator) {
  if (!store.gradient(shared.tensor).defined())
    store.accumulate(shared.tensor, at::zeros_like(store.tensor(shared.tensor)));
  communicator.send(gradients_with(shared.owner), store.gradient(shared.tensor), shared.tag)
      ->wait();
}

void add_gradients(const Transmission& shared, TensorStore& store, Communicator& communicator) {
  const at::Tensor& tensor = store.tensor(shared.tensor);
  for (const int other : shared.others) {
    at::Tensor gradient =
        at::empty_like(tensor, tensor.options().dtype(store.sum_type(tensor.scalar_type())));
    communicator.receive(gradients_with(other), gradient, shared.tag)->wait();
    store.accumulate(shared.tensor, std::move(gradient));
  }
}

}  // namespace

std::vector<Transmission> transmissions(const Slicing& slicing,
                                        const std::vector<int>& rank_of_stage, int rank,
                                        int first_tag) {
  const int ranks = 1 + *std::ranges::max_element(rank_of_stage);
  const int first_rank = rank / ranks * ranks;
  std::vector<Transmission> result;
  for (size_t i = 0; i < slicing.shared.size(); ++i) {
    const Slicing::Shared& shared = slicing.shared[i];
    if (!shared.transmitted) continue;
    const Holders holders = holders_of(shared, rank_of_stage);
    Transmission one{shared.tensor, first_rank + holders.owner, {}, 0};
    for (const int other : holders.others) one.others.push_back(first_rank + other);
    one.tag = first_tag + 2 * static_cast<int>(i);
    if (one.owner == rank || std::ranges::count(one.others, rank) > 0) result.push_back(one);
  }
  return result;
}

void gather_gradients(const std::vector<Transmission>& transmissions, TensorStore& store,
                      Communicator& communicator) {
  const at::NoGradGuard no_grad;
  for (const Transmission& shared : transmissions) {
    if (communicator.rank() == shared.owner) {
      add_gradients(shared, store, communicator);
    } else {
      send_gradient(shared, store, communicator);
    }
  }
}

void publish_values(const std::vector<Transmission>& transmissions, TensorStore& store,
                    Communicator& communicator) {
  std::vector<std::unique_ptr<Transfer>> under_way;
  for (const Transmission& shared : transmissions) {
    at::Tensor& tensor = store.tensor(shared.tensor);
    if (communicator.rank() != shared.owner) {
      under_way.push_back(communicator.receive(values_with(shared.owner), tensor, shared.tag + 1));
      continue;
    }
    for (const int other : shared.others)
      under_way.push_back(communicator.send(values_with(other), tensor, shared.tag + 1));
  }
  for (const auto& transfer : under_way) transfer->wait();
}

}  // namespace penstock
