#include "backend/executor/rank.hpp"

#include <utility>

#include "backend/operators/parts.hpp"
#include "backend/stage/make_stage.hpp"
#include "graph/analysis/loss.hpp"

namespace penstock {

namespace {

bool has_backward(const Program& program) {
  for (const auto& actions : program.ranks) {
    for (const Action& action : actions) {
      if (is_compute(action.kind) && action.kind != Kind::forward) return true;
    }
  }
  return false;
}

std::optional<MeanLoss> mean_loss_of(const Model& model) {
  if (model.plan.job.loss.kind != Loss::output) return std::nullopt;
  return mean_loss(model.graph, model.analysis);
}

TensorGroup group_of(const Plan& plan, Communicator& communicator) {
  const RankPlace place = plan.place_of(communicator.rank());
  TensorGroup group{&communicator, {}, place.part};
  for (int part = 0; part < plan.tensor_parallel; ++part)
    group.ranks.push_back(plan.rank_at({place.replica, place.rank, part}));
  if (group.parts() > 1) communicator.connect_group(group.ranks);
  return group;
}

std::shared_ptr<TensorStore> load(const Model& model, const std::set<int>& tensors,
                                  at::Device device, int part) {
  if (model.group == nullptr)
    return std::make_shared<TensorStore>(model.graph, tensors, device, model.weights);
  const auto own = [&](int index, const at::Tensor& whole) {
    return sharding::own_part(whole, model.layout(index), model.group->parts, part);
  };
  return std::make_shared<TensorStore>(model.group->whole, tensors, device, model.weights, own);
}

std::set<int> tensors_of_rank(const Slicing& slicing, const Program& program, int rank) {
  std::set<int> tensors;
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    if (program.rank_of_stage[stage] != rank) continue;
    tensors.insert(slicing.stages[stage].tensors.begin(), slicing.stages[stage].tensors.end());
  }
  return tensors;
}

}  // namespace

Rank::Rank(const Model& model_, const Data& data_, Communicator& communicator_,
           ComputeDevice& device_, std::shared_ptr<TensorStore> store_)
    : model(model_),
      data(data_),
      communicator(communicator_),
      device(device_),
      index(model.plan.place_of(communicator.rank()).rank),
      replica(model.plan.place_of(communicator.rank()).replica),
      group(group_of(model.plan, communicator)),
      training(has_backward(model.program)),
      has_loss(training || data.with_target()),
      mean_loss(has_loss ? mean_loss_of(model) : std::nullopt),
      graph(mean_loss ? with_sum(model.graph, *mean_loss) : model.graph),
      shared_store(store_ ? std::move(store_)
                          : load(model, tensors_of_rank(model.slicing, model.program, index),
                                 device.where(), group.part)),
      store(*shared_store),
      trained(training ? tensors_of_loss(model.graph, model.analysis) : std::set<int>()),
      buckets(
          gradient_buckets(model.plan, model.graph, model.slicing, trained, communicator.rank())),
      shards(buckets, store, communicator) {
  if (model.plan.job.precision == Precision::bf16) store.sum_in_float32();
  const InTensorGroup here(group);
  for (int stage = 0; stage < model.program.stage_count(); ++stage) {
    if (!has_stage(stage)) continue;
    stages[stage] = make_stage(graph, model.analysis, model.slicing, stage, store,
                               model.plan.job.loss, &captured);
  }
}

int64_t Rank::first_sample(int64_t step, int microbatch) const {
  const Plan& plan = model.plan;
  return step * plan.job.global_batch +
         (replica * plan.microbatches + microbatch) * plan.microbatch;
}

at::Tensor Rank::read(const std::string& name, int64_t step, int microbatch) const {
  return on_device(data.read(name, first_sample(step, microbatch), model.plan.microbatch),
                   device.where());
}

void Rank::begin_step() {
  finished_.clear();
  if (training) store.clear_gradients();
}

void Rank::finish_stage(int stage) {
  if (finished_.insert(stage).second) stages.at(stage)->finish_step();
}

void Rank::finish_stages() {
  for (const auto& [stage, _] : stages) finish_stage(stage);
}

}  // namespace penstock
