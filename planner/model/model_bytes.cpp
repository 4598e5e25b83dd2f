// The bytes of model_chain.hpp, of the same terms as the memory of a plan
// (simulator/costs/stage_terms.hpp). They are added up unit by unit, for all stages that begin with
// the same unit at once: what a stage uses twice has to be known as it grows, which is why tensors
// and values are counted here and not by a plan's costs.
#include <set>

#include "pipeline/job/parameters.hpp"
#include "planner/model/model_chain.hpp"
#include "simulator/memory/stage_parts.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// All that a stage holds; what several of its units use counts once.
struct ModelChain::Holdings {
  std::set<OperatorId> operators;
  std::set<int> tensors;
  std::set<ValueId> given;     // user inputs and what comes from stages before
  std::set<ValueId> least;     // of them those that are kept in any case
  std::set<ValueId> kept;      // by the values that their memory is named by in the stage
  int64_t tensor_bytes = 0;    // as they are trained
  int64_t shared_bytes = 0;    // used outside the stage as well
  int64_t saved_bytes = 0;     // of a microbatch, where nothing is recomputed
  int64_t least_bytes = 0;     // part of it that is kept even so
  int64_t received_bytes = 0;  // part of that, from other stages

  /// What its backward needs stays, whether it is made in the stage or given to it.
  void add_operator(OperatorId id, const ValueLives& lives) {
    if (!operators.insert(id).second) return;
    saved_bytes += lives.own_bytes(id);
    for (ValueId value : lives.kept_by(id)) {
      while (operators.contains(lives.producer(value)) && lives.source(value) >= 0)
        value = lives.source(value);
      const bool made = operators.contains(lives.producer(value));
      if (!made && !given.contains(value)) continue;
      if (!kept.insert(value).second) continue;
      saved_bytes += lives.bytes(value);
      if (!made) keep_given(value, lives);
    }
  }
  /// Given to a part that recomputes, or kept by one that does not.
  void keep_given(ValueId value, const ValueLives& lives) {
    if (!least.insert(value).second) return;
    least_bytes += lives.bytes(value);
    if (lives.producer(value) >= 0) received_bytes += lives.bytes(value);
  }
  void add_tensor(int index, int64_t bytes, bool shared) {
    if (!tensors.insert(index).second) return;
    tensor_bytes += bytes;
    if (shared) shared_bytes += bytes;
  }
};

/// The first unit recomputes where any does, and then keeps what it is given.
void ModelChain::add_unit(const Job& job, int unit, int stage_begin, const ValueLives& lives,
                          int64_t target, SharingWays ways, Holdings& stage) const {
  const StageSlice& slice = slicing_.stages[unit];
  std::set<ValueId> here(slice.user_inputs.begin(), slice.user_inputs.end());
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer >= stage_begin || edge.consumer != unit) continue;
    for (const Crossing& crossing : edge.values) here.insert(crossing.value);
  }
  stage.given.insert(here.begin(), here.end());
  for (const OperatorId id : slice.operators) stage.add_operator(id, lives);
  if (unit == stage_begin && !job.forward_only)
    for (const ValueId value : here) stage.keep_given(value, lives);
  if (makes_loss(slice)) {
    stage.saved_bytes += target;
    stage.least_bytes += target;
  }
  for (const int index : slice.tensors) {
    const StoredTensor& tensor = model_.tensors[index];
    const bool received = ways.transmit && first_using_[index] < stage_begin;
    const bool stepped = !received && ways.state_parts == 1;
    int64_t bytes =
        fixed_bytes(job, tensor, stepped) +
        job.snapshots * snapshot_bytes(job, tensor, updated_buffers_.contains(index), stepped);
    if (ways.state_parts > 1 && units_using_[index] == 1)
      bytes += (1 + job.snapshots) * state_part_bytes(job, tensor, ways.state_parts);
    stage.add_tensor(index, bytes, units_using_[index] > 1);
  }
}

/// Messages may all have been taken when the stage holds most, and its transients have passed.
StageTable ModelChain::bytes(const Profile& profile, const MicrobatchCosts& measured,
                             SharingWays ways) const {
  const ValueLives lives(model_, measured);
  const int64_t target = target_bytes(profile.job, model_, measured.microbatch);
  StageTable table(units());
  for (int begin = 0; begin < units(); ++begin) {
    Holdings stage;
    for (int end = begin + 1; end <= units(); ++end) {
      add_unit(profile.job, end - 1, begin, lives, target, ways, stage);
      StageBytes& bytes = table.at(begin, end);
      bytes.always = stage.tensor_bytes;
      bytes.common = stage.shared_bytes;
      bytes.per_microbatch = stage.saved_bytes;
      bytes.given = stage.least_bytes;
      bytes.received = stage.received_bytes;
    }
  }
  return table;
}

}  // namespace penstock
