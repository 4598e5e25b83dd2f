#include "simulator/costs/plan_costs.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <variant>

#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/gradient_buckets.hpp"
#include "pipeline/plan/sharing.hpp"
#include "simulator/costs/chosen_costs.hpp"
#include "simulator/costs/core_use.hpp"
#include "simulator/costs/recompute_costs.hpp"
#include "simulator/costs/reduce_costs.hpp"
#include "simulator/costs/stage_terms.hpp"
#include "simulator/memory/stage_memory.hpp"

namespace penstock {

namespace {

class PlanCosts {
 public:
  PlanCosts(const Plan& plan, const Graph& model, const Slicing& slicing, const Profile& profile,
            const Cluster* cluster, const ValueLives* lives)
      : plan_(plan),
        ranks_(plan.ranks()),
        model_(model),
        slicing_(slicing),
        profile_(profile),
        cluster_(cluster),
        chosen_(chosen(plan, model, slicing, profile)),
        measured_(chosen_ ? *chosen_ : measured(plan, model, profile)),
        own_lives_(lives && !chosen_ ? std::nullopt
                                     : std::optional<ValueLives>(std::in_place, model, measured_)),
        lives_(own_lives_ ? *own_lives_ : *lives),
        target_bytes_(target_bytes(plan.job, model, plan.microbatch)),
        reductions_(plan, model, slicing, profile, cluster),
        cores_(core_use(profile, cluster, ranks_, plan.data_parallel, plan.tensor_parallel)) {}

  Costs run() {
    Costs costs;
    for (size_t stage = 0; stage < slicing_.stages.size(); ++stage) {
      costs.stages.push_back(stage_costs(stage));
    }
    for (const StageEdge& edge : slicing_.edges) {
      costs.flows.push_back(flow_bytes(model_, edge, plan_.microbatch));
      costs.flows.back().unsaved_bytes = unsaved_bytes(edge);
    }
    costs.receive_depth = Link{}.receive_depth;
    costs.cores = cores_.of_rank;
    return costs;
  }

 private:
  StageCosts stage_costs(size_t stage) {
    StageCosts costs;
    const StageSlice& slice = slicing_.stages[stage];
    add_operators(slice, costs);
    costs.forward_s += load_s(measured_, model_, slice.user_inputs.size(), makes_loss(slice));
    add_memory(stage, costs);
    const int64_t trainable_bytes = add_tensors(stage, costs);
    if (!slice.recomputed.empty() || !slice.choices.empty()) recompute(stage, costs);
    const double excess = measured_.first_microbatch_excess;
    const double backward_s = splits_backward(plan_)
                                  ? costs.backward_input_s + costs.backward_weight_s
                                  : costs.backward_s;
    costs.first_forward_s = costs.forward_s * excess;
    // Microbatch 0 stores its gradients where the others add theirs; those that replicas sum it
    // copies into their buckets, which takes about as long. Where backwards may be split some may
    // be whole, too: neither takes less than no time.
    const int64_t stored_bytes = plan_.data_parallel > 1 ? 0 : trainable_bytes;
    costs.first_backward_s =
        std::max(backward_s * excess - accumulate_s(profile_, stored_bytes),
                 -(splits_backward(plan_) ? std::min(costs.backward_input_s, costs.backward_s)
                                          : costs.backward_s));
    reductions_.add(static_cast<int>(stage), costs);
    const int rank = plan_.stages[stage].rank;
    const double device = cluster_ ? cluster_->slowest_speed(rank, ranks_, plan_.data_parallel) : 1;
    speed_up(costs, device * cores_.speed);
    return costs;
  }

  void add_operators(const StageSlice& slice, StageCosts& costs) const {
    const WorkSeconds overhead{profile_.action_overhead_s, profile_.action_host_s};
    OperatorSums sums{overhead, overhead, overhead, overhead};
    for (const OperatorId id : slice.operators) {
      sums.add(measured_.operators[static_cast<size_t>(id)]);
    }
    if (makes_loss(slice)) sums.add_loss(measured_);
    costs.forward_s = sums.forward.device_s;
    costs.backward_s = sums.backward.device_s;
    costs.backward_input_s = sums.backward_input.device_s;
    costs.backward_weight_s = sums.backward_weight.device_s;
    costs.forward_host_s = sums.forward.host_s;
    costs.backward_host_s = sums.backward.host_s;
    costs.backward_input_host_s = sums.backward_input.host_s;
    costs.backward_weight_host_s = sums.backward_weight.host_s;
  }

  void add_memory(size_t stage, StageCosts& costs) {
    const StageMemory& memory =
        memories_.emplace_back(stage_memory(lives_, measured_, slicing_, static_cast<int>(stage),
                                            target_bytes_, held_elsewhere(stage)));
    costs.saved_bytes = memory.saved_bytes;
    costs.saved_weight_bytes = memory.saved_weight_bytes;
    costs.transient_forward_bytes =
        memory.received_bytes + memory.forward_peak - memory.saved_bytes;
    costs.transient_backward_bytes = memory.given_bytes + memory.backward_peak;
    costs.transient_input_bytes = memory.given_bytes + memory.backward_input_peak;
    costs.transient_weight_bytes = memory.backward_weight_peak;
    costs.recompute_bytes = memory.remade_bytes;
  }

  /// Constants that the stage has computed for operators of its own, each in its own memory.
  int64_t constant_bytes(const StageSlice& slice) const {
    std::set<ValueId> kept;
    for (const OperatorId op : slice.operators) {
      const auto& made = model_.operators[static_cast<size_t>(op)].outputs;
      if (std::ranges::all_of(made, [&](ValueId v) { return v < 0 || lives_.constant(v); }))
        continue;
      for (const ValueId read : lives_.reads(op)) {
        const ValueId root = lives_.root(read);
        if (lives_.constant(read) && lives_.producer(root) >= 0) kept.insert(root);
      }
    }
    int64_t bytes = 0;
    for (const ValueId value : kept) bytes += lives_.bytes(value);
    return bytes;
  }

  /// The values that this stage is given and an earlier stage of the rank holds, whose backward
  /// comes later.
  std::set<ValueId> held_elsewhere(size_t stage) const {
    std::set<ValueId> held;
    for (const StageEdge& edge : slicing_.edges) {
      const auto from = static_cast<size_t>(edge.producer);
      const bool here = edge.consumer == static_cast<int>(stage) &&
                        plan_.stages[from].rank == plan_.stages[stage].rank;
      if (!here || from >= memories_.size()) continue;
      for (const Crossing& crossing : edge.values)
        if (memories_[from].messages.at(crossing.value) == 0) held.insert(crossing.value);
    }
    return held;
  }

  /// A value that several stages are sent is one message's memory: that of the last.
  int64_t unsaved_bytes(const StageEdge& edge) const {
    int64_t bytes = 0;
    for (const Crossing& crossing : edge.values) {
      const bool later = std::ranges::any_of(slicing_.edges, [&](const StageEdge& other) {
        return other.producer == edge.producer && other.consumer > edge.consumer &&
               std::ranges::count(other.values, crossing.value, &Crossing::value) > 0;
      });
      if (!later)
        bytes += memories_[static_cast<size_t>(edge.producer)].messages.at(crossing.value);
    }
    return bytes;
  }

  /// The padding behind its gradient in a bucket, which aligns the next one; what is sent to an
  /// owner is in none.
  int64_t padding_bytes(int index, int rank) const {
    const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
    const bool summed = plan_.data_parallel > 1 || tensor.sums_over_parts;
    if (!summed || !tensor.requires_grad || !reductions_.steps(index, rank)) return 0;
    const int64_t beyond = gradient_bytes(plan_.job, tensor) % gradient_alignment_bytes;
    return beyond == 0 ? 0 : gradient_alignment_bytes - beyond;
  }

  /// Tensors, gradients and optimizer state, or a part of that, each once per rank: a later stage
  /// of the same rank shares them. Of what another rank owns and transmits only the tensor and its
  /// gradient. Returns the bytes of what is trained and this stage's own.
  int64_t add_tensors(size_t stage, StageCosts& costs) {
    int64_t trained_bytes = 0, largest_bytes = 0;
    Stepped own;
    const int rank = plan_.stages[stage].rank;
    const bool sharded = plan_.optimizer_state == OptimizerState::sharded;
    std::set<int>& seen = tensors_of_rank_[rank];
    for (const int index : slicing_.stages[stage].tensors) {
      if (!seen.insert(index).second) continue;
      const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
      if (tensor.requires_grad) trained_bytes += tensor.bytes();
      const bool stepped = !sharded && reductions_.steps(index, rank);
      costs.fixed_bytes += fixed_bytes(plan_.job, tensor, stepped) + padding_bytes(index, rank);
      costs.snapshot_bytes +=
          plan_.job.snapshots *
          snapshot_bytes(plan_.job, tensor, updated_buffers_.contains(index), stepped);
      if (!stepped) continue;
      if (tensor.requires_grad) {
        ++own.tensors;
        own.bytes += tensor.bytes();
      }
      largest_bytes = std::max(largest_bytes, gradient_bytes(plan_.job, tensor));
    }
    if (sharded) {
      const ReduceCosts::Shard shard = reductions_.shard(static_cast<int>(stage));
      const int64_t steps_bytes = shard.tensors * size_bytes(DType::int64);
      costs.fixed_bytes += shard.state_bytes + shard.padding_bytes;
      costs.snapshot_bytes += plan_.job.snapshots * (shard.state_bytes + steps_bytes);
      own = {shard.tensors, shard.bytes};
      largest_bytes = shard.largest_bytes;
    }
    costs.fixed_bytes += constant_bytes(slicing_.stages[stage]);
    if (plan_.job.forward_only) costs.fixed_bytes += output_bytes(slicing_.stages[stage]);
    costs.transient_optimizer_bytes =
        optimizer_transient_bytes(plan_.job.optimizer, profile_.device, largest_bytes);
    own.held_bytes = trained_bytes - own.bytes;
    costs.optimizer_s = step_s(profile_, own);
    return trained_bytes;
  }

  /// The model's outputs of all microbatches, which a step ends with; of one microbatch they are
  /// what its F makes.
  int64_t output_bytes(const StageSlice& slice) const {
    int64_t bytes = 0;
    if (plan_.microbatches == 1) return bytes;
    for (const int output : slice.outputs) {
      const auto* made = std::get_if<TensorRef>(&model_.outputs[static_cast<size_t>(output)].value);
      if (made) bytes += plan_.microbatches * lives_.bytes(made->value);
    }
    return bytes;
  }

  void recompute(size_t stage, StageCosts& costs) const {
    const RecomputeCosts recompute =
        recompute_costs(model_, slicing_, static_cast<int>(stage), measured_);
    costs.backward_s += recompute.forward_s;
    costs.backward_input_s += recompute.forward_s;
    costs.backward_host_s += recompute.forward_host_s;
    costs.backward_input_host_s += recompute.forward_host_s;
    costs.recompute_s = recompute.forward_s;
  }

  const Plan& plan_;
  const int ranks_;
  const Graph& model_;
  std::set<int> updated_buffers_ = updated_buffers(model_);
  const Slicing& slicing_;
  const Profile& profile_;
  const Cluster* cluster_;
  const std::optional<MicrobatchCosts> chosen_;  // where layers make choices
  const MicrobatchCosts& measured_;
  const std::optional<ValueLives> own_lives_;
  const ValueLives& lives_;
  const int64_t target_bytes_;
  std::vector<StageMemory> memories_;  // of the stages so far
  ReduceCosts reductions_;
  CoreUse cores_;
  std::map<int, std::set<int>> tensors_of_rank_;
};

}  // namespace

void speed_up(StageCosts& costs, double times) {
  for (double StageCosts::*time_s :
       {&StageCosts::forward_s, &StageCosts::backward_s, &StageCosts::backward_input_s,
        &StageCosts::backward_weight_s, &StageCosts::first_forward_s, &StageCosts::first_backward_s,
        &StageCosts::optimizer_s, &StageCosts::recompute_s}) {
    costs.*time_s /= times;
  }
  for (SumCosts& sum : costs.sums) {
    sum.left_of_backward_s /= times;
    sum.left_of_weight_s /= times;
  }
}

Costs plan_costs(const Plan& plan, const Graph& model, const Slicing& slicing,
                 const Profile& profile, const Cluster* cluster, const ValueLives* lives) {
  if (plan.stages.size() != slicing.stages.size()) {
    throw std::invalid_argument("plan_costs: the slicing is not of this plan");
  }
  return PlanCosts(plan, model, slicing, profile, cluster, lives).run();
}

}  // namespace penstock
