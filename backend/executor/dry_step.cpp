#include "backend/executor/dry_step.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "backend/executor/dry_communicator.hpp"

namespace penstock {

DrySteps::DrySteps(Rank& rank, Mailbox& mailbox, StepMetrics& metrics, MicrobatchActions& actions)
    : rank_(rank),
      mailbox_(mailbox),
      metrics_(metrics),
      actions_(actions),
      buffers_(rank.model.graph, rank.store),
      dry_(make_dry_communicator(rank.communicator)),
      group_{dry_.get(), rank.group.ranks, rank.group.part} {
  mailbox.use(*dry_);
}

void DrySteps::end() {
  mailbox_.use(rank_.communicator);
  buffers_.restore();
}

void DrySteps::ask_for_memory(int64_t step) {
  constexpr int kMaxSteps = 4;
  const std::vector<at::Tensor> pinned = pin_inputs(step);
  for (int i = 0; i < kMaxSteps; ++i) {
    const int64_t before = rank_.device.allocations();
    run(step);
    if (rank_.device.allocations() == before) return;
  }
}

/// The inputs of all microbatches at once, in pinned memory: a host that runs ahead fills as much
/// before the first is read, and asking for it then would wait for receives that spin.
std::vector<at::Tensor> DrySteps::pin_inputs(int64_t step) const {
  std::vector<at::Tensor> pinned;
  if (rank_.device.where().is_cpu()) return pinned;
  const Model& model = rank_.model;
  for (int microbatch = 0; microbatch < model.plan.microbatches; ++microbatch) {
    const auto pin = [&](const std::string& name) {
      const int64_t first = rank_.first_sample(step, microbatch);
      pinned.push_back(rank_.data.read(name, first, model.plan.microbatch).pin_memory());
    };
    for (const auto& [index, stage] : rank_.stages) {
      for (const ValueId input : model.slicing.stages[static_cast<size_t>(index)].user_inputs)
        pin(model.graph.values[static_cast<size_t>(input)].name);
      if (rank_.has_loss && stage->needs_target()) pin(kTarget);
    }
  }
  return pinned;
}

void DrySteps::issue(int64_t step) {
  const InTensorGroup here(group_);
  actions_.begin_step(step);
  rank_.device.fail_without_memory(false);
  for (size_t i = 0; i < rank_.actions().size(); ++i) {
    const Kind kind = rank_.actions()[i].kind;
    if (kind == Kind::reduce_grad) {
      rank_.finish_stage(rank_.actions()[i].stage);
    } else if (kind != Kind::optimizer) {
      actions_.run(i);
    }
    mailbox_.enqueued(i);
  }
  mailbox_.finish_step();
  rank_.finish_stages();
}

double DrySteps::run(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  issue(step);
  const std::chrono::duration<double> issued = std::chrono::steady_clock::now() - start;
  rank_.communicator.synchronise();
  actions_.take_outputs();
  metrics_.drop_losses();
  rank_.store.clear_gradients();
  return issued.count();
}

double DrySteps::min_step_s(int64_t step) {
  double min_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) min_s = std::min(min_s, seconds_on(rank_.device, [&] { run(step); }));
  return min_s;
}

}  // namespace penstock
