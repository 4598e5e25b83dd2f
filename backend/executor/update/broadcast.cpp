#include "backend/executor/update/broadcast.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>

#include "pipeline/plan/sharing.hpp"

namespace penstock {

namespace {

/// Gradients take the channel of gradients, parameters that of activations.
PeerChannel gradients_with(int peer) { return {peer, true}; }
PeerChannel parameters_with(int peer) { return {peer, false}; }

void send_gradient(const ParameterBroadcast& shared, TensorStore& store,
                   Communicator& communicator) {
  if (!store.gradient(shared.tensor).defined())
    store.accumulate(shared.tensor, at::zeros_like(store.tensor(shared.tensor)));
  communicator.send(gradients_with(shared.owner), store.gradient(shared.tensor), shared.tag)
      ->wait();
}

void add_gradients(const ParameterBroadcast& shared, TensorStore& store,
                   Communicator& communicator) {
  const at::Tensor& tensor = store.tensor(shared.tensor);
  for (const int other : shared.others) {
    at::Tensor gradient =
        at::empty_like(tensor, tensor.options().dtype(store.sum_type(tensor.scalar_type())));
    communicator.receive(gradients_with(other), gradient, shared.tag)->wait();
    store.accumulate(shared.tensor, std::move(gradient));
  }
}

}  // namespace

std::vector<ParameterBroadcast> parameter_broadcasts(const Plan& plan, const Slicing& slicing,
                                                     int rank, int first_tag) {
  const RankPlace place = plan.place_of(rank);
  const std::vector<int> rank_of_stage = ranks_of_stages(plan);
  const auto in_run = [&](int of_pipeline) {
    return plan.rank_at({place.replica, of_pipeline, place.part});
  };
  std::vector<ParameterBroadcast> result;
  for (size_t i = 0; i < slicing.shared.size(); ++i) {
    const Slicing::Shared& shared = slicing.shared[i];
    if (!shared.transmitted) continue;
    const Holders holders = holders_of(shared, rank_of_stage);
    ParameterBroadcast one{shared.tensor, in_run(holders.owner), {}, 0};
    for (const int other : holders.others) one.others.push_back(in_run(other));
    one.tag = first_tag + 2 * static_cast<int>(i);
    if (one.owner == rank || std::ranges::count(one.others, rank) > 0) result.push_back(one);
  }
  return result;
}

void sum_to_owners(const std::vector<ParameterBroadcast>& broadcasts, TensorStore& store,
                   Communicator& communicator) {
  const at::NoGradGuard no_grad;
  for (const ParameterBroadcast& shared : broadcasts) {
    if (communicator.rank() == shared.owner) {
      add_gradients(shared, store, communicator);
    } else {
      send_gradient(shared, store, communicator);
    }
  }
}

void broadcast_parameters(const std::vector<ParameterBroadcast>& broadcasts, TensorStore& store,
                          Communicator& communicator) {
  std::vector<std::unique_ptr<Transfer>> in_flight;
  for (const ParameterBroadcast& shared : broadcasts) {
    at::Tensor& tensor = store.tensor(shared.tensor);
    if (communicator.rank() != shared.owner) {
      in_flight.push_back(
          communicator.receive(parameters_with(shared.owner), tensor, shared.tag + 1));
      continue;
    }
    for (const int other : shared.others)
      in_flight.push_back(communicator.send(parameters_with(other), tensor, shared.tag + 1));
  }
  for (const auto& transfer : in_flight) transfer->wait();
}

}  // namespace penstock
