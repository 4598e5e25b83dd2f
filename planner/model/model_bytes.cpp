// The bytes of model_chain.hpp, of the same terms as the memory of a plan
// (simulator/costs/stage_terms.hpp). They are added up unit by unit, for all stages that begin with
// the same unit at once: what a stage uses twice has to be known as it grows, which is why tensors
// and values are counted here and not by a plan's costs.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "pipeline/job/parameters.hpp"
#include "planner/model/model_chain.hpp"
#include "planner/model/turn_bytes.hpp"
#include "planner/model/unit_bytes.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

namespace {

/// A set of numbers below a limit, quickly emptied.
class Members {
 public:
  explicit Members(size_t limit) : added_(limit, 0) {}
  void clear() { ++now_; }
  /// Nothing less than 0 is.
  bool contains(int number) const {
    return number >= 0 && added_[static_cast<size_t>(number)] == now_;
  }
  /// Was it none before?
  bool insert(int number) {
    const bool is_new = !contains(number);
    added_[static_cast<size_t>(number)] = now_;
    return is_new;
  }

 private:
  std::vector<uint32_t> added_;
  uint32_t now_ = 1;
};

/// The bytes that a stage keeps of a microbatch; what several of its units use counts once.
struct Kept {
  explicit Kept(const Graph& model)
      : operators(model.operators.size()),
        given(model.values.size()),
        least(model.values.size()),
        kept(model.values.size()) {}

  Members operators;
  Members given;               // user inputs and what comes from stages before
  Members least;               // of them those that are kept in any case
  Members kept;                // by the values that their memory is named by in the stage
  int64_t saved_bytes = 0;     // where nothing is recomputed
  int64_t least_bytes = 0;     // part of it that is kept even so
  int64_t received_bytes = 0;  // part of that, from other stages
  int64_t freed_bytes = 0;     // the most that the choices of layers free

  void clear() {
    for (Members* members : {&operators, &given, &least, &kept}) members->clear();
    saved_bytes = least_bytes = received_bytes = freed_bytes = 0;
  }
  /// Keeps what its backward needs, whether it is made in the stage or given to it.
  void add_operator(OperatorId id, const ValueLives& lives) {
    if (!operators.insert(id)) return;
    saved_bytes += lives.own_bytes(id);
    const auto inside = [&](OperatorId op) { return operators.contains(op); };
    for (const ValueId needed : lives.kept_by(id)) {
      const ValueId value = lives.kept_as(needed, id, inside);
      const bool made = operators.contains(lives.producer(value));
      if (!made && !given.contains(value)) continue;
      if (!kept.insert(value)) continue;
      saved_bytes += lives.bytes(value);
      if (!made) keep_given(value, lives);
    }
  }
  /// Given to a part that recomputes, or kept by one that does not.
  void keep_given(ValueId value, const ValueLives& lives) {
    if (!least.insert(value)) return;
    least_bytes += lives.bytes(value);
    if (lives.producer(value) >= 0) received_bytes += lives.bytes(value);
  }
};

/// The bytes that the choice of a layer frees which frees most.
int64_t most_freed(const MicrobatchCosts& measured, OperatorId layer) {
  int64_t bytes = 0;
  for (const RecomputeChoice& choice : measured.operators[static_cast<size_t>(layer)].recompute)
    bytes = std::max(bytes, choice.freed_bytes);
  return bytes;
}

/// By their consumers.
std::vector<std::vector<const StageEdge*>> incoming(const Slicing& slicing) {
  std::vector<std::vector<const StageEdge*>> edges(slicing.stages.size());
  for (const StageEdge& edge : slicing.edges)
    edges[static_cast<size_t>(edge.consumer)].push_back(&edge);
  return edges;
}

}  // namespace

/// Messages may all have been taken when the stage holds most.
void ModelChain::add_kept(const Profile& profile, const MicrobatchCosts& measured,
                          StageTable& table) const {
  const ValueLives lives(model_, measured);
  const int64_t target = target_bytes(profile.job, model_, measured.microbatch);
  const auto edges = incoming(slicing_);
  Kept stage(model_);
  for (int begin = 0; begin < table.begins(); ++begin) {
    stage.clear();
    for (int unit = begin; unit < units(); ++unit) {
      const StageSlice& slice = slicing_.stages[static_cast<size_t>(unit)];
      std::vector<ValueId> here(slice.user_inputs.begin(), slice.user_inputs.end());
      for (const StageEdge* edge : edges[static_cast<size_t>(unit)]) {
        if (edge->producer >= begin) continue;
        for (const Crossing& crossing : edge->values) here.push_back(crossing.value);
      }
      for (const ValueId value : here) stage.given.insert(value);
      for (const OperatorId id : slice.operators) {
        stage.add_operator(id, lives);
        if (model_.layers) stage.freed_bytes += most_freed(measured, id);
      }
      if (unit == begin && !profile.job.forward_only)
        for (const ValueId value : here) stage.keep_given(value, lives);
      if (makes_loss(slice)) {
        stage.saved_bytes += target;
        stage.least_bytes += target;
      }
      StageBytes& bytes = table.at(begin, unit + 1);
      bytes.per_microbatch = stage.saved_bytes;
      bytes.given = std::min(stage.least_bytes, stage.saved_bytes);
      if (model_.layers) bytes.given = std::max(bytes.given, stage.saved_bytes - stage.freed_bytes);
      bytes.received = stage.received_bytes;
    }
  }
}

/// A unit here may have but parts of those that may recompute; what turns round is the last that it
/// has, where that is a whole one. The choices of layers are known from what a stage is given.
void ModelChain::add_recompute(const Job& job, const MicrobatchCosts& measured,
                               const Slicing& recomputed, StageTable& table) const {
  const auto count = static_cast<size_t>(units());
  std::vector<int64_t> freed(count, 0);
  std::vector<TurnBytes> turns(count);
  if (!model_.layers && !job.forward_only) {
    std::vector<std::set<int>> here(recomputed.stages.size());  // the units that have parts of it
    for (size_t op = 0; op < model_.operators.size(); ++op)
      here[static_cast<size_t>(recomputed.stage_of_operator[op])].insert(
          slicing_.stage_of_operator[op]);
    const ValueLives lives(model_, measured);
    const std::vector<UnitBytes> bytes = unit_bytes(lives, measured, recomputed);
    const std::vector<TurnBytes> all_turns = turn_bytes(lives, measured, recomputed);
    for (size_t of = 0; of < here.size(); ++of) {
      const bool whole = here[of].size() == 1;
      for (const int unit : here[of]) {
        freed[static_cast<size_t>(unit)] += whole ? bytes[of].alone : bytes[of].in_part;
        turns[static_cast<size_t>(unit)] = whole ? all_turns[of] : TurnBytes{};
      }
    }
  }
  for (int begin = 0; begin < table.begins(); ++begin) {
    int64_t freed_bytes = 0;
    for (int unit = begin; unit < units(); ++unit) {
      freed_bytes += freed[static_cast<size_t>(unit)];
      StageBytes& bytes = table.at(begin, unit + 1);
      bytes.apart =
          model_.layers ? bytes.given : std::max<int64_t>(0, bytes.per_microbatch - freed_bytes);
      bytes.turn = turns[static_cast<size_t>(unit)].bytes;
      bytes.again = turns[static_cast<size_t>(unit)].again;
    }
  }
}

/// As it is trained, where a stage steps it or not.
int64_t ModelChain::tensor_bytes(const Job& job, int index, bool stepped, SharingWays ways) const {
  const StoredTensor& tensor = model_.tensors[static_cast<size_t>(index)];
  int64_t bytes =
      fixed_bytes(job, tensor, stepped) +
      job.snapshots * snapshot_bytes(job, tensor, updated_buffers_.contains(index), stepped);
  if (ways.state_parts > 1 && units_using_[static_cast<size_t>(index)] == 1)
    bytes += (1 + job.snapshots) * state_part_bytes(job, tensor, ways.state_parts);
  return bytes;
}

void ModelChain::add_tensors(const Job& job, SharingWays ways, StageTable& table) const {
  const int count = static_cast<int>(model_.tensors.size());
  std::vector<int64_t> received, own;
  for (int index = 0; index < count; ++index) {
    received.push_back(tensor_bytes(job, index, false, ways));
    own.push_back(tensor_bytes(job, index, ways.state_parts == 1, ways));
  }
  Members tensors(model_.tensors.size());
  for (int begin = 0; begin < table.begins(); ++begin) {
    tensors.clear();
    int64_t all_bytes = 0, shared_bytes = 0;
    for (int unit = begin; unit < units(); ++unit) {
      for (const int index : slicing_.stages[static_cast<size_t>(unit)].tensors) {
        if (!tensors.insert(index)) continue;
        const auto i = static_cast<size_t>(index);
        const int64_t bytes = ways.transmit && first_using_[i] < begin ? received[i] : own[i];
        all_bytes += bytes;
        if (units_using_[i] > 1) shared_bytes += bytes;
      }
      table.at(begin, unit + 1).always = all_bytes;
      table.at(begin, unit + 1).common = shared_bytes;
    }
  }
}

StageTable ModelChain::bytes(const Profile& profile, const MicrobatchCosts& measured,
                             const Slicing& recomputed, SharingWays ways) const {
  StageTable table(units());
  add_kept(profile, measured, table);
  add_recompute(profile.job, measured, recomputed, table);
  add_tensors(profile.job, ways, table);
  return table;
}

}  // namespace penstock
