// The bytes of model_chain.hpp, of the same terms as the memory of a plan
// (simulator/costs/stage_terms.hpp). They are added up unit by unit, for all stages that begin with
// the same unit at once: what a stage uses twice has to be known as it grows, which is why tensors
// and values are counted here and not by a plan's costs.
#include <algorithm>
#include <set>

#include "pipeline/job/parameters.hpp"
#include "planner/model/model_chain.hpp"

namespace penstock {

namespace {

/// Bytes of every value for a microbatch.
std::vector<int64_t> value_bytes(const Graph& model, int64_t microbatch) {
  std::vector<int64_t> bytes;
  bytes.reserve(model.values.size());
  for (const Value& value : model.values) bytes.push_back(value.bytes(microbatch));
  return bytes;
}

}  // namespace

/// All that a stage holds; what several of its units use counts once.
struct ModelChain::Holdings {
  std::set<OperatorId> operators;
  std::set<int> tensors;
  std::set<ValueId> given;  // user inputs and what comes from stages before
  OperatorSums sums;
  int64_t tensor_bytes = 0;  // as they are trained
  int64_t shared_bytes = 0;  // used outside the stage as well
  int64_t given_bytes = 0, received_bytes = 0, returned_bytes = 0;

  void add_operator(OperatorId id, const OperatorCost& cost) {
    if (operators.insert(id).second) sums.add(cost);
  }
  int64_t transient_bytes() const {
    return std::max(sums.transient_forward_bytes, sums.transient_backward_bytes);
  }
  void add_tensor(int index, int64_t bytes, bool shared) {
    if (!tensors.insert(index).second) return;
    tensor_bytes += bytes;
    if (shared) shared_bytes += bytes;
  }
  void add_input(ValueId value, int64_t bytes) {
    if (given.insert(value).second) given_bytes += bytes;
  }
  void add_crossing(const Crossing& crossing, int64_t bytes) {
    if (!given.insert(crossing.value).second) return;
    given_bytes += bytes;
    received_bytes += bytes;
    if (crossing.carries_gradient) returned_bytes += bytes;
  }
};

/// Values made in units [begin, end) that later units use: sent, and expected back as gradients.
struct ModelChain::Outgoing {
  int64_t sent_bytes = 0, expected_bytes = 0;
};

ModelChain::Outgoing ModelChain::outgoing(int begin, int end,
                                          const std::vector<int64_t>& sizes) const {
  Outgoing out;
  std::set<ValueId> sent;
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer < begin || edge.producer >= end || edge.consumer < end) continue;
    for (const Crossing& crossing : edge.values) {
      if (!sent.insert(crossing.value).second) continue;
      out.sent_bytes += sizes[crossing.value];
      if (crossing.carries_gradient) out.expected_bytes += sizes[crossing.value];
    }
  }
  return out;
}

void ModelChain::add_unit(const Job& job, int unit, int stage_begin,
                          const MicrobatchCosts& measured, const std::vector<int64_t>& sizes,
                          SharingWays ways, Holdings& stage) const {
  const StageSlice& slice = slicing_.stages[unit];
  for (const OperatorId id : slice.operators) stage.add_operator(id, measured.operators[id]);
  for (const int index : slice.tensors) {
    const StoredTensor& tensor = model_.tensors[index];
    const bool received = ways.transmit && first_using_[index] < stage_begin;
    stage.add_tensor(index, fixed_bytes(job, tensor, !received), units_using_[index] > 1);
  }
  for (const ValueId input : slice.user_inputs) stage.add_input(input, sizes[input]);
  for (const StageEdge& edge : slicing_.edges) {
    if (edge.producer >= stage_begin || edge.consumer != unit) continue;
    for (const Crossing& crossing : edge.values)
      stage.add_crossing(crossing, sizes[crossing.value]);
  }
}

StageTable ModelChain::bytes(const Profile& profile, const MicrobatchCosts& measured,
                             SharingWays ways) const {
  const std::vector<int64_t> sizes = value_bytes(model_, measured.microbatch);
  StageTable table(units());
  for (int begin = 0; begin < units(); ++begin) {
    Holdings stage;
    for (int end = begin + 1; end <= units(); ++end) {
      add_unit(profile.job, end - 1, begin, measured, sizes, ways, stage);
      const Outgoing out = outgoing(begin, end, sizes);
      StageBytes& bytes = table.at(begin, end);
      const int64_t messages = message_buffer_bytes(stage.received_bytes + out.expected_bytes,
                                                    out.sent_bytes + stage.returned_bytes);
      bytes.always = stage.tensor_bytes + stage.transient_bytes() + messages;
      bytes.common = messages + stage.shared_bytes;
      bytes.transient = stage.transient_bytes();
      bytes.per_microbatch = stage.sums.saved_bytes + stage.given_bytes;
      bytes.given = stage.given_bytes;
    }
  }
  return table;
}

}  // namespace penstock
