#include "simulator/engine/memory.hpp"

#include <algorithm>

namespace penstock {

namespace {

bool is_backward(Kind kind) {
  return kind == Kind::backward || kind == Kind::backward_input || kind == Kind::backward_weight;
}

/// The bytes that a rank holds, moved along its actions.
class Ledger {
 public:
  Ledger(const Program& program, int rank, const Costs& costs)
      : costs_(costs), rank_(rank), trains_(program.rank_of_stage.size()) {
    for (size_t stage = 0; stage < program.rank_of_stage.size(); ++stage) {
      if (program.rank_of_stage[stage] == rank)
        held_.fixed_bytes += costs.stages[stage].fixed_bytes;
    }
    if (!costs.receive_buffer_bytes.empty()) {
      held_.receive_buffer_bytes = costs.receive_buffer_bytes[static_cast<size_t>(rank)];
    }
    for (const Action& action : program.ranks[static_cast<size_t>(rank)]) note(action);
    memory_.peak = held_;
    memory_.peak_bytes = shown_ = held_.total();
  }

  void sample(double time_s) {
    if (!memory_.samples.empty() && memory_.samples.back().bytes == shown_) return;
    memory_.samples.push_back({rank_, time_s, shown_});
  }

  void begin(const Action& action) {
    const StageCosts& stage = costs_.stages[static_cast<size_t>(action.stage)];
    if (action.kind == Kind::forward) {
      held_.saved_bytes += stage.saved_bytes;
      memory_.peak_activations = std::max(memory_.peak_activations, ++activations_);
      held_.transient_bytes = stage.transient_forward_bytes;
    } else if (is_backward(action.kind)) {
      held_.recomputed_bytes = stage.recompute_bytes;
      held_.transient_bytes = stage.transient_backward_bytes - stage.recompute_bytes;
    } else if (action.kind == Kind::reduce_grad) {
      held_.transient_bytes = stage.transient_reduce_bytes;
    }
    show();
  }

  void end(const Action& action) {
    const StageCosts& stage = costs_.stages[static_cast<size_t>(action.stage)];
    held_.recomputed_bytes = held_.transient_bytes = 0;
    switch (action.kind) {
      case Kind::forward:
        if (!trains_[static_cast<size_t>(action.stage)])
          release(held_.saved_bytes, stage.saved_bytes);
        break;
      case Kind::backward: release(held_.saved_bytes, stage.saved_bytes); break;
      case Kind::backward_input:
        held_.saved_bytes -= stage.saved_bytes;
        held_.saved_weight_bytes += stage.saved_weight_bytes;
        break;
      case Kind::backward_weight:
        release(held_.saved_weight_bytes, stage.saved_weight_bytes);
        break;
      default: break;
    }
    show();
  }

  RankMemory take() { return std::move(memory_); }

 private:
  void note(const Action& action) {
    for_each_part(action, [&](const Action& part) {
      if (is_backward(part.kind)) trains_[static_cast<size_t>(part.stage)] = true;
    });
  }

  void release(int64_t& held, int64_t bytes) {
    held -= bytes;
    --activations_;
  }

  void show() {
    shown_ = held_.total();
    if (shown_ <= memory_.peak_bytes) return;
    memory_.peak_bytes = shown_;
    memory_.peak = held_;
  }

  const Costs& costs_;
  const int rank_;
  std::vector<bool> trains_;  // per stage: has a backward
  RankMemory memory_;
  MemoryParts held_;
  int64_t shown_ = 0;  // their sum
  int activations_ = 0;
};

}  // namespace

RankMemory rank_memory(const Program& program, int rank, const Costs& costs,
                       const CompiledProgram* compiled, const EngineResult* times) {
  Ledger ledger(program, rank, costs);
  if (times) ledger.sample(0);
  auto task = compiled ? static_cast<size_t>(compiled->rank_begin[static_cast<size_t>(rank)]) : 0;
  for (const Action& action : program.ranks[static_cast<size_t>(rank)]) {
    const bool overlap = action.kind == Kind::overlap;
    double at_s = times ? times->start_s[task] : 0;
    for_each_part(action, [&](const Action& part) {
      ledger.begin(part);
      if (times) ledger.sample(at_s);
      at_s += overlap ? costs.duration_s(part) : 0;
      ledger.end(part);
      if (times) ledger.sample(overlap ? at_s : times->end_s[task]);
    });
    ++task;
  }
  return ledger.take();
}

}  // namespace penstock
