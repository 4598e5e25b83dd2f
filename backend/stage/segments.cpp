#include "backend/stage/segments.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

/// The part of the stage that each operator belongs to, and whether parts recompute.
struct Division {
  std::vector<int> part_of;  // -1: another stage's
  std::vector<char> recompute;
};

Division divide(const Slicing& slicing, int stage) {
  const std::vector<Segment>& segments = slicing.stages[static_cast<size_t>(stage)].recomputed;
  Division division{std::vector<int>(slicing.stage_of_operator.size(), -1), {}};
  auto previous = segments.end();
  for (size_t op = 0; op < slicing.stage_of_operator.size(); ++op) {
    if (slicing.stage_of_operator[op] != stage) continue;
    const auto segment = std::ranges::find_if(
        segments, [&](const Segment& of) { return of.contains(static_cast<OperatorId>(op)); });
    if (division.recompute.empty() || segment != previous) {
      division.recompute.push_back(segment != segments.end());
    }
    previous = segment;
    division.part_of[op] = static_cast<int>(division.recompute.size()) - 1;
  }
  return division;
}

/// The model with the stage's parts as stages of their own, in its place.
Slicing divided(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
                const Division& division) {
  const int more = static_cast<int>(division.recompute.size()) - 1;
  std::vector<int> owner = slicing.stage_of_operator;
  for (size_t op = 0; op < owner.size(); ++op) {
    if (owner[op] == stage)
      owner[op] += division.part_of[op];
    else if (owner[op] > stage)
      owner[op] += more;
  }
  return slice(graph, analysis, std::move(owner), static_cast<int>(slicing.stages.size()) + more);
}

/// The values of the stage's edges of which it is that end.
std::set<ValueId> values_of(const Slicing& slicing, int StageEdge::*end, int stage) {
  std::set<ValueId> values;
  for (const StageEdge& edge : slicing.edges) {
    if (edge.*end != stage) continue;
    for (const Crossing& crossing : edge.values) values.insert(crossing.value);
  }
  return values;
}

}  // namespace

SegmentedStage::SegmentedStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                               int stage, TensorStore& store, Loss loss)
    : sent_(values_of(slicing, &StageEdge::producer, stage)) {
  const Division division = divide(slicing, stage);
  const int count = static_cast<int>(division.recompute.size());
  if (count > 1) {
    divided_ = std::make_unique<const Slicing>(divided(graph, analysis, slicing, stage, division));
  }
  const Slicing& of = divided_ ? *divided_ : slicing;
  for (int i = 0; i < std::max(count, 1); ++i) {
    const int index = stage + i;
    const bool recompute = count > 0 && division.recompute[static_cast<size_t>(i)] != 0;
    Part& part = parts_.emplace_back();
    part.stage = std::make_unique<Stage>(graph, analysis, of, index, store, loss, recompute, stage);
    part.reads = values_of(of, &StageEdge::consumer, index);
    part.sends = values_of(of, &StageEdge::producer, index);
    const auto& inputs = of.stages[static_cast<size_t>(index)].user_inputs;
    part.reads.insert(inputs.begin(), inputs.end());
  }
  std::set<ValueId> later;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    for (const ValueId value : part->reads) {
      if (later.insert(value).second) part->last.insert(value);
    }
  }
}

SegmentedStage::~SegmentedStage() = default;

Stage::Forward SegmentedStage::forward(int microbatch, const Values& inputs,
                                       const std::optional<at::Tensor>& target,
                                       const StepContext& context) {
  if (parts_.size() == 1) return parts_.front().stage->forward(microbatch, inputs, target, context);
  Values known = inputs;
  Stage::Forward result;
  for (const Part& part : parts_) {
    Values read;
    for (const ValueId value : part.reads) read[value] = known.at(value);
    for (const ValueId value : part.last) known.erase(value);
    const auto& needed = part.stage->needs_target() ? target : std::nullopt;
    Stage::Forward forward = part.stage->forward(microbatch, read, needed, context);
    for (auto& [value, tensor] : forward.sent) {
      if (sent_.contains(value)) result.sent[value] = tensor;
      known[value] = std::move(tensor);
    }
    if (forward.loss) result.loss = std::move(forward.loss);
    result.outputs.merge(forward.outputs);
  }
  return result;
}

/// From the last part to the first; what several of them read gets the sum of their gradients.
template <class Backward>
Values SegmentedStage::backwards(const Values& gradients, Backward backward) {
  if (parts_.size() == 1) return backward(*parts_.front().stage, gradients);
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
  return backwards(
      gradients, [&](Stage& stage, const Values& own) { return stage.backward(microbatch, own); });
}

Values SegmentedStage::backward_input(int microbatch, const Values& gradients) {
  return backwards(gradients, [&](Stage& stage, const Values& own) {
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
