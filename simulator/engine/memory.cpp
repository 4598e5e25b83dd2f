#include "simulator/engine/memory.hpp"

#include <algorithm>
#include <optional>

#include "pipeline/program/lowering.hpp"
#include "simulator/engine/messages.hpp"

namespace penstock {

namespace {

bool is_backward(Kind kind) {
  return kind == Kind::backward || kind == Kind::backward_input || kind == Kind::backward_weight;
}

/// The bytes that a rank holds, moved along its actions.
class Ledger {
 public:
  Ledger(const Program& program, int rank, const Costs& costs)
      : costs_(costs),
        rank_(rank),
        messages_(program, rank, costs),
        trains_(program.rank_of_stage.size()) {
    for (size_t stage = 0; stage < program.rank_of_stage.size(); ++stage) {
      if (program.rank_of_stage[stage] != rank) continue;
      held_.fixed_bytes += costs.stages[stage].fixed_bytes;
      held_.snapshot_bytes += costs.stages[stage].snapshot_bytes;
    }
    held_.message_bytes = messages_.held();
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
    ++begun_;
    messages_.begin(action);
    if (is_receive(action.kind)) messages_.post(action);
    held_.message_bytes = messages_.held();
    if (action.kind == Kind::forward) {
      held_.saved_bytes += stage.saved_bytes;
      memory_.peak_activations = std::max(memory_.peak_activations, ++activations_);
      held_.transient_bytes = stage.transient_forward_bytes;
    } else if (action.kind == Kind::backward || action.kind == Kind::backward_input) {
      const int64_t transient = action.kind == Kind::backward ? stage.transient_backward_bytes
                                                              : stage.transient_input_bytes;
      held_.recomputed_bytes = std::min(stage.recompute_bytes, transient);
      held_.transient_bytes = transient - held_.recomputed_bytes;
    } else if (action.kind == Kind::backward_weight) {
      held_.transient_bytes = stage.transient_weight_bytes;
    } else if (action.kind == Kind::reduce_grad) {
      held_.transient_bytes = stage.transient_reduce_bytes;
    } else if (action.kind == Kind::optimizer) {
      held_.transient_bytes = stage.transient_optimizer_bytes;
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
      case Kind::recv_forward:
      case Kind::recv_backward: messages_.retire(action); break;
      default: break;
    }
    messages_.end(action);
    held_.message_bytes = messages_.held();
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
    memory_.begun = begun_;
  }

  const Costs& costs_;
  const int rank_;
  MessageBytes messages_;
  std::vector<bool> trains_;  // per stage: has a backward
  RankMemory memory_;
  MemoryParts held_;
  int64_t shown_ = 0;  // their sum
  int64_t begun_ = 0;
  int activations_ = 0;
};

/// When actions ran, one after the other. A RECV takes place when the action after it starts.
class Clock {
 public:
  Clock(const Program& ran, int rank, const CompiledProgram* compiled, const EngineResult* times)
      : actions_(ran.ranks[static_cast<size_t>(rank)]), times_(times) {
    if (compiled) first_ = static_cast<size_t>(compiled->rank_begin[static_cast<size_t>(rank)]);
  }
  void begin(const Action& action) {
    if (!times_) return;
    while (next_ < actions_.size() && is_receive(actions_[next_].kind)) ++next_;
    const bool done = next_ == actions_.size();
    start_s = done ? end_s : times_->start_s[first_ + next_];
    if (is_receive(action.kind)) {
      end_s = start_s;
    } else if (!done) {
      end_s = times_->end_s[first_ + next_++];
    }
  }
  double start_s = 0, end_s = 0;

 private:
  const std::vector<Action>& actions_;
  const EngineResult* times_;
  size_t first_ = 0, next_ = 0;
};

RankMemory memory_of_rank(const Program& program, int rank, const Costs& costs, Clock clock,
                          bool sampled) {
  Ledger ledger(program, rank, costs);
  if (sampled) ledger.sample(0);
  for (const Action& action : program.ranks[static_cast<size_t>(rank)]) {
    clock.begin(action);
    const bool overlap = action.kind == Kind::overlap;
    double at_s = clock.start_s;
    for_each_part(action, [&](const Action& part) {
      ledger.begin(part);
      if (sampled) ledger.sample(at_s);
      at_s += overlap ? costs.duration_s(part) : 0;
      ledger.end(part);
      if (sampled) ledger.sample(overlap ? at_s : clock.end_s);
    });
  }
  return ledger.take();
}

}  // namespace

RankMemory memory_of_rank(const Program& delayed, int rank, const Costs& costs) {
  return memory_of_rank(delayed, rank, costs, Clock(delayed, rank, nullptr, nullptr), false);
}

std::vector<int> held_at_peak(const Program& delayed, int rank, const RankMemory& memory) {
  std::vector<int> held(delayed.rank_of_stage.size(), 0);
  int64_t left = memory.begun;
  for (const Action& action : delayed.ranks[static_cast<size_t>(rank)]) {
    if (left == 0) break;
    for_each_part(action, [&](const Action& part) {
      if (left == 0) return;
      --left;
      int& of_stage = held[static_cast<size_t>(part.stage)];
      if (part.kind == Kind::forward) ++of_stage;
      if (is_input_backward(part.kind) && left > 0) --of_stage;
    });
  }
  return held;
}

std::vector<RankMemory> memory_of_ranks(const Program& program, const Costs& costs,
                                        const CompiledProgram* compiled, const EngineResult* times,
                                        const Program* delayed) {
  std::optional<Program> own;
  if (costs.receive_depth == 0) delayed = &program;
  if (delayed == nullptr) delayed = &own.emplace(delay_receives(program));
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    ranks.push_back(memory_of_rank(*delayed, rank, costs, Clock(program, rank, compiled, times),
                                   times != nullptr));
  }
  return ranks;
}

}  // namespace penstock
