#include "tests/backend/executor/recording_device.hpp"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/backend/profiler/scripted_device.hpp"

namespace penstock::test {

namespace {

using c10::DispatchKey;
using c10::IValue;
using torch::jit::Stack;

/// Below autograd, and nobody's: PyTorch has it for other projects.
constexpr DispatchKey kNoted = DispatchKey::Fake;

struct Memory {  // a storage, and how many tensors of recordings keep it
  c10::Storage storage;
  size_t kept = 0;
};
using Memories = std::map<const c10::StorageImpl*, Memory>;

/// All that recordings keep.
struct Kept {
  Memories memories;
  std::set<const c10::StorageImpl*> own;  // made by a recording

  at::Tensor keep(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const auto impl = tensor.unsafeGetTensorImpl();
    Memory& memory = memories[tensor.storage().unsafeGetStorageImpl()];
    memory.storage = tensor.storage();
    ++memory.kept;
    return at::Tensor(impl->shallow_copy_and_detach(c10::VariableVersion(0), true));
  }

  IValue keep(const IValue& value) {
    if (value.isTensor()) return keep(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(keep(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(keep(*tensor)) : std::nullopt);
      return list;
    }
    return value;
  }

  /// Of the recordings' own memory: what nobody else holds.
  std::vector<c10::StorageImpl*> free() const {
    std::vector<c10::StorageImpl*> found;
    for (const auto& [impl, memory] : memories) {
      // One more is `memory.storage`.
      const bool held = static_cast<size_t>(memory.storage.use_count()) > memory.kept + 1;
      if (own.contains(impl) && !held) found.push_back(memory.storage.unsafeGetStorageImpl());
    }
    return found;
  }
};

/// Each of `value`'s tensors.
template <class Visit>
void for_tensors(const IValue& value, Visit visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (!value.isTensorList()) return;
  for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
}

/// What a kernel that nobody waited for has left there, so that it can still be an index.
void spoil(const at::Tensor& tensor) {
  if (tensor.is_floating_point()) {
    tensor.fill_(NAN);
  } else {
    tensor.zero_();
  }
}

/// A float of all ones is not a number, an index of all ones is none.
void spoil(c10::StorageImpl& storage) {
  std::memset(storage.mutable_data(), 0xff, storage.nbytes());
}

struct Noted {
  c10::OperatorHandle op;
  Stack arguments, results;
};

class Recorded : public Recording {
 public:
  explicit Recorded(std::vector<c10::StorageImpl*> reused) : reused_(std::move(reused)) {}

  void replay() override {
    for (c10::StorageImpl* storage : reused_) spoil(*storage);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const Noted& noted : noted_) {
      Stack stack = noted.arguments;
      noted.op.callBoxed(&stack);
      for (size_t i = 0; i < stack.size(); ++i) put(stack[i], noted.results[i]);
    }
  }

  void note(Noted noted) { noted_.push_back(std::move(noted)); }

  /// Its results as they would be had nothing run.
  void spoil_results(const std::set<const c10::StorageImpl*>& made) const {
    for (const Noted& noted : noted_) {
      for (const IValue& result : noted.results) {
        for_tensors(result, [&](const at::Tensor& tensor) {
          if (made.contains(tensor.storage().unsafeGetStorageImpl())) spoil(tensor);
        });
      }
    }
  }

 private:
  static void put(const IValue& value, const IValue& place) {
    std::vector<at::Tensor> from, to;
    for_tensors(value, [&](const at::Tensor& tensor) { from.push_back(tensor); });
    for_tensors(place, [&](const at::Tensor& tensor) { to.push_back(tensor); });
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i].data_ptr() != to[i].data_ptr()) to[i].copy_(from[i]);
  }

  std::vector<Noted> noted_;
  std::vector<c10::StorageImpl*> reused_;  // which the recorder keeps
};

thread_local Recorded* recording = nullptr;
thread_local Kept* keeper = nullptr;
thread_local std::set<const c10::StorageImpl*>* made_now = nullptr;

/// The operator runs, and its arguments are kept as they were before.
Noted noted_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Noted noted{op, {}, {}};
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i)
    noted.arguments.push_back(keeper->keep((*stack)[i]));
  op.redispatchBoxed(keys, stack);
  for (const IValue& result : *stack) noted.results.push_back(keeper->keep(result));
  return noted;
}

/// What the operator asks memory for is this recording's own.
void note_made(const Noted& noted) {
  std::set<const c10::StorageImpl*> given;
  const auto storage = [](const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  };
  for (const IValue& argument : noted.arguments)
    for_tensors(argument, [&](const at::Tensor& tensor) { given.insert(storage(tensor)); });
  for (const IValue& result : noted.results) {
    for_tensors(result, [&](const at::Tensor& tensor) {
      if (!given.contains(storage(tensor))) made_now->insert(storage(tensor));
    });
  }
}

void note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const std::string name = op.operator_name().name;
  // The CPU's cross-entropy counts its targets for the host, a GPU's does not.
  const bool reads =
      name == "aten::_local_scalar_dense" && stack->back().toTensor().scalar_type() != at::kLong;
  if (reads || name == "aten::nonzero") throw std::runtime_error(name + " reads a value");
  const c10::impl::ExcludeDispatchKeyGuard no_more(kNoted);
  Noted noted =
      noted_call(op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kNoted), stack);
  note_made(noted);
  if (name.starts_with("aten::empty")) {  // nothing runs
    for (const IValue& result : *stack) spoil(result.toTensor());
    noted.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::alias", "");
    noted.arguments = noted.results;
  }
  recording->note(std::move(noted));
}

class FakeRecorder : public Recorder {
 public:
  explicit FakeRecorder(int most) : left_(most) {}

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    auto result = std::make_unique<Recorded>(kept_.free());
    std::set<const c10::StorageImpl*> made;
    recording = result.get();
    keeper = &kept_;
    made_now = &made;
    {
      const c10::impl::IncludeDispatchKeyGuard noted(kNoted);
      work();
    }
    if (left_-- <= 0) throw std::runtime_error("this device records no more");
    kept_.own.insert(made.begin(), made.end());
    result->spoil_results(made);
    return result;
  }
  int64_t unheld_bytes() const override {
    int64_t bytes = 0;
    for (const c10::StorageImpl* storage : kept_.free())
      bytes += static_cast<int64_t>(storage->nbytes());
    return bytes;
  }

 private:
  Kept kept_;
  int left_;
};

/// Times as they are scripted; else of the CPU's own marks.
class ScriptedMarks : public Marks {
 public:
  ScriptedMarks(std::unique_ptr<Marks> real, std::vector<double>& script)
      : real_(std::move(real)), script_(script) {}
  void mark() override { real_->mark(); }
  std::vector<double> times() override {
    std::vector<double> times = real_->times();
    if (script_.empty() || times.size() != 2) return times;
    times = {0, script_.front()};
    if (script_.size() > 1) script_.erase(script_.begin());
    return times;
  }

 private:
  std::unique_ptr<Marks> real_;
  std::vector<double>& script_;
};

class RecordingDevice : public ScriptedDevice {
 public:
  explicit RecordingDevice(RecordingOptions options) : options_(std::move(options)) {}
  int64_t available_bytes() const override { return options_.available_bytes; }
  std::unique_ptr<Marks> make_marks() override {
    return std::make_unique<ScriptedMarks>(cpu_device().make_marks(), options_.measured_s);
  }
  std::unique_ptr<Recorder> make_recorder() override {
    return std::make_unique<FakeRecorder>(options_.most_recordings);
  }

 private:
  RecordingOptions options_;
};

}  // namespace

std::unique_ptr<ComputeDevice> make_recording_device(RecordingOptions options) {
  return std::make_unique<RecordingDevice>(std::move(options));
}

}  // namespace penstock::test

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&penstock::test::note>());
}
