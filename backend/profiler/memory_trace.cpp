#include "backend/profiler/memory_trace.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace penstock::profiler {
namespace {

/// The trace that is told of autograd's nodes; a GPU's run on a thread of autograd's own.
std::atomic<MemoryTrace*> listener = nullptr;

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& node) {
  MemoryTrace* const trace = listener.load();
  if (trace != nullptr) trace->run_node(node.seqNr());
  return nullptr;
}

/// References to a tensor and to its memory. Autograd keeps the one or the other, and a weak one to
/// memory that is gathered again.
size_t references(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return 0;
  return tensor.use_count() + tensor.storage().use_count() +
         tensor.storage().getWeakStorageImpl().weak_use_count();
}

bool share(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && other.defined() && one.has_storage() && other.has_storage() &&
         one.storage().is_alias_of(other.storage());
}

/// Does something hold the memory of a result beside the result, and what it is a view of?
bool is_kept(const at::Tensor& result) {
  return result.has_storage() && result.storage().use_count() > (result.is_view() ? 2U : 1U);
}

}  // namespace

MemoryTrace::MemoryTrace(const Graph& graph, ComputeDevice& device)
    : graph_(graph),
      device_(device),
      held_(graph.operators.size()),
      values_(graph.operators.size()) {
  for (const BufferUpdate& update : graph.updates) at_end_.insert(update.value);
  for (const Output& output : graph.outputs)
    if (const auto* ref = std::get_if<TensorRef>(&output.value)) at_end_.insert(ref->value);
}

MemoryTrace::~MemoryTrace() { listener = nullptr; }

void MemoryTrace::begin(MemoryChange HeldBytes::*action) {
  static const at::CallbackHandle callback = at::addGlobalCallback(
      at::RecordFunctionCallback(&on_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  static_cast<void>(callback);
  action_ = action;
  for (HeldBytes& held : held_) held.*action = {};
  const bool forward = action == &HeldBytes::forward;
  if (forward) {
    sequences_.clear();
    values_.assign(values_.size(), {});
  }
  current_ = forward ? 0 : static_cast<OperatorId>(held_.size()) - 1;
  device_.reset_peak();
  level_ = device_.held_bytes();
  listener = forward ? nullptr : this;
}

void MemoryTrace::end() {
  const OperatorId last = current_;
  enter(last);
  listener = nullptr;
  if (action_ == &HeldBytes::forward) drop_unkept(last);
}

/// Values that only the forward itself let go of (outputs, new values of buffers, values of
/// parameters alone) go with the operator that made them.
void MemoryTrace::drop_unkept(OperatorId last) {
  for (const Result& result : results_) {
    if (!result.memory.expired()) continue;
    std::erase(values_[static_cast<size_t>(result.op)].keeps, result.number);
    MemoryChange& made = held_[static_cast<size_t>(result.op)].forward;
    MemoryChange& end = held_[static_cast<size_t>(last)].forward;
    made.net -= result.bytes;
    end = {end.net + result.bytes, std::max(end.peak, end.net + result.bytes)};
  }
  results_.clear();
}

/// Ends the current operator's part.
void MemoryTrace::enter(OperatorId op) {
  const int64_t now = device_.held_bytes();
  MemoryChange& change = held_[static_cast<size_t>(current_)].*action_;
  change = change.then({now - level_, std::max(device_.peak_bytes() - level_, int64_t{0})});
  level_ = now;
  current_ = op;
  device_.reset_peak();
}

void MemoryTrace::before(OperatorId op, const std::vector<ValueId>& reads,
                         const ValueTable& values) {
  enter(op);
  sequences_[at::sequence_number::peek()] = op;
  references_.clear();
  for (const ValueId read : reads)
    references_.push_back(references(values[static_cast<size_t>(read)]));
}

/// An output in the memory of something read is a view of it, which keeps nothing by itself.
void MemoryTrace::after(OperatorId op, const std::vector<ValueId>& reads,
                        const std::vector<ValueId>& outputs, const ValueTable& values) {
  ValueMemory& memory = values_[static_cast<size_t>(op)];
  const auto at = [&](ValueId id) -> const at::Tensor& { return values[static_cast<size_t>(id)]; };
  const size_t known = graph_.operators[static_cast<size_t>(op)].reads().size();
  const bool loss = outputs.empty();
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] < 0 || !at(outputs[o]).defined() || !at(outputs[o]).has_storage()) continue;
    const at::Tensor& result = at(outputs[o]);
    if (!result.is_contiguous()) memory.strided.push_back(static_cast<int>(known + o));
    const auto source =
        std::ranges::find_if(reads, [&](ValueId read) { return share(result, at(read)); });
    if (source != reads.end()) {
      memory.shares.emplace_back(static_cast<int>(known + o),
                                 static_cast<int>(source - reads.begin()));
      continue;
    }
    const bool kept = is_kept(result);
    if (kept) memory.keeps.push_back(static_cast<int>(known + o));
    if (kept || at_end_.contains(outputs[o])) {
      results_.push_back({op, static_cast<int>(known + o),
                          static_cast<int64_t>(result.storage().nbytes()),
                          result.storage().getWeakStorageImpl()});
    }
  }
  if (!memory.shares.empty() && !loss) return;
  for (size_t r = 0; r < reads.size(); ++r) {
    if (references(at(reads[r])) <= references_[r]) continue;
    if (!loss) {
      memory.keeps.push_back(static_cast<int>(r));
      continue;
    }
    const auto& made = graph_.operators[static_cast<size_t>(op)].outputs;
    const auto output = std::ranges::find(made, reads[r]);
    const auto number = static_cast<int>(known + static_cast<size_t>(output - made.begin()));
    if (std::ranges::find(memory.keeps, number) == memory.keeps.end())
      memory.keeps.push_back(number);
  }
}

void MemoryTrace::run_node(int64_t sequence_number) {
  if (sequence_number < 0 || sequences_.empty()) return;  // a leaf: part of what sends to it
  auto next = sequences_.upper_bound(static_cast<uint64_t>(sequence_number));
  if (next == sequences_.begin()) return;
  const OperatorId op = std::prev(next)->second;
  if (op != current_) enter(op);
}

}  // namespace penstock::profiler
