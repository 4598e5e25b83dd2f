#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

RankWriter::RankWriter(Program& program, int rank)
    : microbatches_(program.microbatches),
      actions_(program.ranks[static_cast<size_t>(rank)]),
      counts_(program.rank_of_stage.size()) {}

void RankWriter::append(const Action& action) {
  if (action.microbatch < microbatches_) actions_.push_back(action);
}

void RankWriter::forward(int stage) {
  append({stage, Kind::forward, counts_[static_cast<size_t>(stage)].forward++});
}

void RankWriter::backward(int stage) {
  Counts& counts = counts_[static_cast<size_t>(stage)];
  append({stage, Kind::backward, counts.backward++});
  ++counts.weight;
}

void RankWriter::backward_input(int stage) {
  append({stage, Kind::backward_input, counts_[static_cast<size_t>(stage)].backward++});
  pending_.push_back(stage);
}

void RankWriter::backward_weight(int stage) {
  append({stage, Kind::backward_weight, counts_[static_cast<size_t>(stage)].weight++});
}

void RankWriter::oldest_backward_weight() {
  if (next_pending_ < pending_.size()) backward_weight(pending_[next_pending_++]);
}

void RankWriter::overlap(int forward_stage, int backward_stage) {
  Counts& backward = counts_[static_cast<size_t>(backward_stage)];
  const int microbatch = counts_[static_cast<size_t>(forward_stage)].forward++;
  actions_.push_back(penstock::overlap({forward_stage, Kind::forward, microbatch},
                                       {backward_stage, Kind::backward, backward.backward++}));
  ++backward.weight;
}

}  // namespace penstock
