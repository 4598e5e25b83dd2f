#include "backend/stage/segmented_stage.hpp"

#include <algorithm>
#include <utility>

#include "backend/stage/whole_stage.hpp"

namespace penstock {

namespace {

/// The part of the stage that each operator belongs to, and whether parts recompute.
struct StageParts {
  std::vector<int> part_of;  // -1: another stage's
  std::vector<bool> recompute;
};

StageParts parts_of(const Slicing& slicing, int stage) {
  const std::vector<Segment>& segments = slicing.stages[static_cast<size_t>(stage)].recomputed;
  StageParts parts{std::vector<int>(slicing.stage_of_operator.size(), -1), {}};
  auto previous = segments.end();
  for (size_t op = 0; op < slicing.stage_of_operator.size(); ++op) {
    if (slicing.stage_of_operator[op] != stage) continue;
    const auto segment = std::ranges::find_if(segments, [&](const Segment& candidate) {
      return candidate.contains(static_cast<OperatorId>(op));
    });
    if (parts.recompute.empty() || segment != previous) {
      parts.recompute.push_back(segment != segments.end());
    }
    previous = segment;
    parts.part_of[op] = static_cast<int>(parts.recompute.size()) - 1;
  }
  return parts;
}

/// The model with the stage's parts as stages of their own, in its place.
Slicing divided(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
                const StageParts& parts) {
  const int added = static_cast<int>(parts.recompute.size()) - 1;
  std::vector<int> owner = slicing.stage_of_operator;
  for (size_t op = 0; op < owner.size(); ++op) {
    if (owner[op] == stage)
      owner[op] += parts.part_of[op];
    else if (owner[op] > stage)
      owner[op] += added;
  }
  return slice(graph, analysis, std::move(owner), static_cast<int>(slicing.stages.size()) + added);
}

/// The values of the edges whose end `end` is the stage.
std::set<ValueId> values_of(const Slicing& slicing, int StageEdge::*end, int stage) {
  std::set<ValueId> values;
  for (const StageEdge& edge : slicing.edges) {
    if (edge.*end != stage) continue;
    for (const Crossing& crossing : edge.values) values.insert(crossing.value);
  }
  return values;
}

}  // namespace

std::vector<bool> recomputed_parts(const Slicing& slicing, int stage) {
  return parts_of(slicing, stage).recompute;
}

SegmentedStage::SegmentedStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                               int stage, TensorStore& store, const LossSpec& loss)
    : sent_(values_of(slicing, &StageEdge::producer, stage)) {
  const StageParts parts = parts_of(slicing, stage);
  divided_ = divided(graph, analysis, slicing, stage, parts);
  for (size_t part = 0; part < parts.recompute.size(); ++part) {
    const int index = stage + static_cast<int>(part);
    add_part(index, std::make_unique<WholeStage>(graph, analysis, divided_, index, store, loss,
                                                 parts.recompute[part], stage));
  }
  find_last_reads();
}

void SegmentedStage::add_part(int index, std::unique_ptr<Stage> stage) {
  Part& part = parts_.emplace_back();
  part.stage = std::move(stage);
  part.reads = values_of(divided_, &StageEdge::consumer, index);
  part.sends = values_of(divided_, &StageEdge::producer, index);
  const auto& inputs = divided_.stages[static_cast<size_t>(index)].user_inputs;
  part.reads.insert(inputs.begin(), inputs.end());
}

void SegmentedStage::find_last_reads() {
  std::set<ValueId> later;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    for (const ValueId value : part->reads) {
      if (later.insert(value).second) part->last_reads.insert(value);
    }
  }
}

Stage::Forward SegmentedStage::forward(int microbatch, const Values& inputs,
                                       const std::optional<at::Tensor>& target,
                                       const StepContext& context) {
  Values live = inputs;
  Stage::Forward result;
  for (const Part& part : parts_) {
    Values read;
    for (const ValueId value : part.reads) read[value] = live.at(value);
    for (const ValueId value : part.last_reads) live.erase(value);
    const auto& needed = part.stage->needs_target() ? target : std::nullopt;
    Stage::Forward forward = part.stage->forward(microbatch, read, needed, context);
    for (auto& [value, tensor] : forward.sent) {
      if (sent_.contains(value)) result.sent[value] = tensor;
      live[value] = std::move(tensor);
    }
    if (forward.loss) result.loss = std::move(forward.loss);
    result.outputs.merge(forward.outputs);
  }
  return result;
}

/// Runs from the last part to the first; a value that several of them read gets the sum of their
/// gradients.
template <class Backward>
Values SegmentedStage::backward_parts(const Values& gradients, Backward backward) {
  Values pending = gradients;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    Values own;
    for (const ValueId value : part->sends) {
      if (auto node = pending.extract(value); !node.empty()) own.insert(std::move(node));
    }
    for (auto& [value, gradient] : backward(*part->stage, own)) {
      const auto [place, fresh] = pending.try_emplace(value, gradient);
      if (!fresh) place->second = place->second + gradient;
    }
  }
  return pending;
}

Values SegmentedStage::backward(int microbatch, const Values& gradients) {
  return backward_parts(
      gradients, [&](Stage& stage, const Values& own) { return stage.backward(microbatch, own); });
}

Values SegmentedStage::backward_input(int microbatch, const Values& gradients) {
  return backward_parts(gradients, [&](Stage& stage, const Values& own) {
    return stage.backward_input(microbatch, own);
  });
}

void SegmentedStage::backward_weight(int microbatch) {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->stage->backward_weight(microbatch);
  }
}

void SegmentedStage::finish_step() {
  for (const Part& part : parts_) part.stage->finish_step();
}

void SegmentedStage::reset() {
  for (const Part& part : parts_) part.stage->reset();
}

void SegmentedStage::refresh() {
  for (const Part& part : parts_) part.stage->refresh();
}

std::map<int, int> SegmentedStage::gradient_uses() const {
  std::map<int, int> uses;
  for (const Part& part : parts_) {
    for (const auto& [tensor, count] : part.stage->gradient_uses()) uses[tensor] += count;
  }
  return uses;
}

bool SegmentedStage::has_random() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.stage->has_random(); });
}

at::Device SegmentedStage::device() const { return parts_.front().stage->device(); }

bool SegmentedStage::has_loss() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.stage->has_loss(); });
}

bool SegmentedStage::needs_target() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.stage->needs_target(); });
}

}  // namespace penstock
