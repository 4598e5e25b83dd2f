// Proves transfers complete, ordered around their compute, and matched; each pass is linear.
#include "pipeline/program/check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "pipeline/program/channels.hpp"
#include "pipeline/program/flow_table.hpp"

namespace penstock {

namespace {

/// Walks the ranks one by one, noting what has run.
class TransferCheck {
 public:
  TransferCheck(const Program& program, const FlowTable& table, std::string_view place)
      : program_(program), table_(table), place_(place) {
    const auto microbatches = static_cast<size_t>(program.microbatches);
    forward_done_.resize(program.rank_of_stage.size() * microbatches);
    backward_done_.resize(forward_done_.size());
    for (auto& seen : seen_) seen.resize(static_cast<size_t>(table.size()) * microbatches);
    weights_left_.assign(program.rank_of_stage.size(), program.microbatches);
    reduced_.resize(program.rank_of_stage.size());
    stepped_.resize(program.rank_of_stage.size());
  }

  void run() {
    for (rank_ = 0; rank_ < program_.rank_count(); ++rank_) {
      for (const Action& action : program_.ranks[static_cast<size_t>(rank_)]) {
        for_each_part(action, [&](const Action& part) { see(part); });
      }
    }
    check_sent();
  }

 private:
  [[noreturn]] void refuse(const Action& action, const std::string& problem,
                           std::string_view cure) const {
    throw InputError(place_, fmt::format("rank {}: {} {}", rank_, to_string(action), problem),
                     cure);
  }

  void see(const Action& action) {
    switch (action.kind) {
      case Kind::forward: return forward(action);
      case Kind::backward:
      case Kind::backward_input: backward(action); break;
      case Kind::backward_weight: break;
      case Kind::reduce_grad:
      case Kind::optimizer: return update(action);
      default: return transfer(action);
    }
    weights_left_[at(action.stage)] -= action.kind != Kind::backward_input;
  }

  void forward(const Action& action) {
    for (int flow : table_.into(action.stage)) {
      const int from = table_[flow].from;
      if (!table_.local(flow)) {
        require_received(action, flow, {action.stage, Kind::recv_forward, action.microbatch, from});
      } else if (!forward_done_[cell(from, action.microbatch)]) {
        refuse(action,
               fmt::format("comes before {}F{}, whose output it uses", from, action.microbatch),
               "Move it behind.");
      }
    }
    forward_done_[cell(action.stage, action.microbatch)] = true;
  }

  void backward(const Action& action) {
    for (int flow : table_.out_of(action.stage)) {
      if (!table_[flow].gradient) continue;
      const int to = table_[flow].to;
      if (!table_.local(flow)) {
        require_received(action, flow, {action.stage, Kind::recv_backward, action.microbatch, to});
      } else if (!backward_done_[cell(to, action.microbatch)]) {
        refuse(action,
               fmt::format("comes before the backward of stage {}, whose gradient it uses", to),
               "Move it behind.");
      }
    }
    backward_done_[cell(action.stage, action.microbatch)] = true;
  }

  void require_received(const Action& user, int flow, const Action& receive) const {
    if (seen(receive.kind)[cell(flow, receive.microbatch)]) return;
    refuse(user, fmt::format("has no {} before it", to_string(receive)),
           "Add or move the transfer: a lowered program must hold every one. Without any, Penstock "
           "adds them all.");
  }

  void transfer(const Action& action) {
    const int flow = table_.served_by(action);
    if (flow < 0) {
      refuse(action,
             fmt::format("moves nothing: no such value flows between stages {} and {}",
                         action.stage, peer_stage(action)),
             "Remove it and its partner.");
    }
    if (table_.local(flow)) {
      refuse(action,
             fmt::format("is needless: stages {} and {} are on one rank", action.stage,
                         peer_stage(action)),
             "Remove it and its partner.");
    }
    if (action.microbatch < 0 || action.microbatch >= program_.microbatches) {
      refuse(action, fmt::format("has a microbatch outside 0..{}", program_.microbatches - 1),
             "Number the microbatches from 0.");
    }
    const size_t own = cell(action.stage, action.microbatch);
    if (action.kind == Kind::send_forward && !forward_done_[own]) {
      refuse(action, "comes before the F that produces its values", "Move it behind.");
    }
    if (action.kind == Kind::send_backward && !backward_done_[own]) {
      refuse(action, "comes before the backward that produces its gradients", "Move it behind.");
    }
    auto already = seen(action.kind)[cell(flow, action.microbatch)];
    if (already) refuse(action, "runs twice", "Remove one of them.");
    already = true;
  }

  void update(const Action& action) {
    const size_t stage = at(action.stage);
    const bool reduces = action.kind == Kind::reduce_grad;
    if (weights_left_[stage] > 0) {
      refuse(action, "comes before the stage's last backward", "Move it behind.");
    }
    if (reduces && stepped_[stage])
      refuse(action, "comes after the stage's OPT", "Move it before.");
    auto already = (reduces ? reduced_ : stepped_)[stage];
    if (already) refuse(action, "runs twice", "Remove one of them.");
    already = true;
  }

  /// Every value that is used was received (seen in the walk); so was it sent?
  void check_sent() const {
    bool any_backward = false;
    for (const bool done : backward_done_) any_backward = any_backward || done;
    for (int flow = 0; flow < table_.size(); ++flow) {
      if (table_.local(flow)) continue;
      const auto [from, to, gradient] = table_[flow];
      for (int m = 0; m < program_.microbatches; ++m) {
        require_sent(flow, {from, Kind::send_forward, m, to});
        if (gradient && any_backward) require_sent(flow, {to, Kind::send_backward, m, from});
      }
    }
  }

  void require_sent(int flow, const Action& send) const {
    if (seen(send.kind)[cell(flow, send.microbatch)]) return;
    const int rank = program_.rank_of_stage[at(send.stage)];
    throw InputError(
        place_, fmt::format("rank {}: {} is missing", rank, to_string(send)),
        "A lowered program must hold every transfer. Without any, Penstock adds them all.");
  }

  static size_t at(int stage) { return static_cast<size_t>(stage); }
  size_t cell(int stage_or_flow, int microbatch) const {
    return at(stage_or_flow) * static_cast<size_t>(program_.microbatches) + at(microbatch);
  }
  std::vector<bool>& seen(Kind transfer) { return seen_[at(static_cast<int>(transfer)) - first_]; }
  const std::vector<bool>& seen(Kind transfer) const {
    return seen_[at(static_cast<int>(transfer)) - first_];
  }

  static constexpr size_t first_ = static_cast<size_t>(Kind::send_forward);
  const Program& program_;
  const FlowTable& table_;
  const std::string_view place_;
  int rank_ = 0;
  std::vector<bool> forward_done_, backward_done_;  // by stage and microbatch
  std::vector<bool> seen_[4];                       // by kind of transfer; by flow and microbatch
  std::vector<int> weights_left_;                   // by stage: microbatches without B or W yet
  std::vector<bool> reduced_, stepped_;             // by stage
};

}  // namespace

void check(const Program& lowered, const std::vector<Flow>& flows, std::string_view place) {
  check_compute(lowered, place);
  const FlowTable table(flows, lowered.rank_of_stage);
  TransferCheck(lowered, table, place).run();
  const Channels channels(lowered, table);
  channels.check_matched(place);
  channels.check_finishes(place);
}

}  // namespace penstock
