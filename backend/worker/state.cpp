#include "backend/worker/state.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backend/executor/transfers.hpp"
#include "backend/operators/dtype.hpp"
#include "backend/operators/parts.hpp"
#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "pipeline/checkpoint/writing.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

namespace fs = std::filesystem;

namespace {

void add_buffer(const LoadedPlan& loaded, int index, Executor& executor, NamedTensors& tensors) {
  tensors.emplace_back("buffer." + loaded.graph.tensors[static_cast<size_t>(index)].name,
                       executor.store().tensor(index));
}

/// Adds nothing for one that neither is trained nor was.
void add_parameter(const LoadedPlan& loaded, int index, Executor& executor, NamedTensors& tensors) {
  const StoredTensor& stored = loaded.graph.tensors[static_cast<size_t>(index)];
  if (!stored.requires_grad && !executor.store().restored(index)) return;
  tensors.emplace_back("parameter." + stored.name, executor.store().tensor(index));
  const auto state = executor.optimizer().states().find(index);
  if (state == executor.optimizer().states().end()) return;
  tensors.emplace_back("steps." + stored.name, at::scalar_tensor(state->second.steps, at::kLong));
}

std::string optimizer_name(const StoredTensor& stored, const std::string& key) {
  return "optimizer." + stored.name + "." + key;
}

/// The state that this rank has of a tensor, which may be a part.
void add_optimizer(const LoadedPlan& loaded, int index, Executor& executor, NamedTensors& tensors) {
  const auto state = executor.optimizer().states().find(index);
  if (state == executor.optimizer().states().end()) return;
  const StoredTensor& stored = loaded.graph.tensors[static_cast<size_t>(index)];
  for (const auto& [key, tensor] : state->second.tensors)
    tensors.emplace_back(optimizer_name(stored, key), tensor);
}

}  // namespace

RankState rank_state(const LoadedPlan& loaded, Executor& executor) {
  RankState state;
  const std::set<int> updated = updated_buffers(loaded.graph);
  for (const int index : executor.store().indices()) {
    if (updated.contains(index)) add_buffer(loaded, index, executor, state.buffers);
    add_parameter(loaded, index, executor, state.trained);
    add_optimizer(loaded, index, executor, state.trained);
  }
  return state;
}

namespace {

/// A tensor of a stage's file. Of a part this rank has `own`, and `tensor` is the index of what its
/// part is, or the state's of which it is one.
struct StageTensor {
  std::string name;
  at::Tensor own;
  std::vector<int64_t> sizes;
  std::optional<int> tensor = {};
  std::optional<int> sharer = {};  // the rank that gathers what replicas share out of it
};

const std::vector<int64_t>& whole_sizes(const LoadedPlan& loaded, int index) {
  return loaded.whole().tensors[static_cast<size_t>(index)].sizes;
}

/// The rank of the writer's tensor group that has what this rank has of the tensor: the writer
/// itself, where each has it whole.
int equal_of_writer(const LoadedPlan& loaded, int index, const Executor& executor, int writer) {
  if (!executor.layout(index).is_split()) return writer;
  RankPlace place = loaded.plan.place_of(writer);
  place.part = executor.group().part;
  return loaded.plan.rank_at(place);
}

/// The tensor and its state, or the state alone, where this rank and the writer have parts of it;
/// every rank that has one lists the same.
std::vector<StageTensor> parted_state(const LoadedPlan& loaded, int index, Executor& executor,
                                      int writer) {
  const bool in_parts =
      executor.layout(index).is_split() && executor.group().ranks.front() == writer;
  const int equal = equal_of_writer(loaded, index, executor, writer);
  const bool shared = executor.shards().share(index, equal);
  NamedTensors held, state;
  if (in_parts) add_parameter(loaded, index, executor, held);
  if (in_parts || shared) add_optimizer(loaded, index, executor, state);
  std::vector<StageTensor> result;
  const std::vector<int64_t>& sizes = whole_sizes(loaded, index);
  for (const auto& [name, tensor] : held) {
    if (tensor.dim() > 0) result.push_back({name, tensor, sizes, index});
  }
  for (const auto& [name, tensor] : state)
    result.push_back({name, tensor, sizes, index, shared ? std::optional(equal) : std::nullopt});
  return result;
}

/// All of a stage that this rank has, in the order of its file.
std::vector<StageTensor> stage_state(const LoadedPlan& loaded, int stage, Executor& executor,
                                     int rank) {
  const StageSlice& slice = loaded.slicing.stages[static_cast<size_t>(stage)];
  NamedTensors whole;
  for (const BufferUpdate& update : slice.updates)
    add_buffer(loaded, update.tensor, executor, whole);
  for (const int index : slice.tensors) {
    add_parameter(loaded, index, executor, whole);
    if (!executor.shards().parts().contains(index)) add_optimizer(loaded, index, executor, whole);
  }
  // A tensor that a group has in parts is among them, and replaced by its parts.
  std::map<std::string, StageTensor> found;
  for (const auto& [name, tensor] : whole) found[name] = {name, tensor, tensor.sizes().vec()};
  for (const int index : slice.tensors) {
    for (StageTensor& part : parted_state(loaded, index, executor, rank))
      found[part.name] = std::move(part);
  }
  std::set<std::string> held;
  for (const auto& [name, tensor] : found) held.insert(name);
  std::vector<StageTensor> tensors;
  for (const std::string& name : stage_contents(loaded.graph, slice, held))
    tensors.push_back(std::move(found.at(name)));
  return tensors;
}

/// Puts the parts together at the writer, first those of replicas, then those of its tensor group;
/// the other ranks send theirs.
at::Tensor collect(const LoadedPlan& loaded, Executor& executor, const StageTensor& part, int tag) {
  at::Tensor own = part.own;
  if (part.sharer) {
    own = executor.shards().collect(*part.tensor, own, *part.sharer, tag);
    if (!own.defined()) return own;
    own = own.view(loaded.graph.tensors[static_cast<size_t>(*part.tensor)].sizes);
  }
  const sharding::Layout layout = executor.layout(*part.tensor);
  return layout.is_split() ? collected(own, layout, executor.group(), tag) : own;
}

/// Sends the parts that this rank has, also of a stage that another rank has.
void send_parts(const LoadedPlan& loaded, int stage, Executor& executor, int writer, int tag) {
  for (const int index : loaded.slicing.stages[static_cast<size_t>(stage)].tensors) {
    for (const StageTensor& part : parted_state(loaded, index, executor, writer))
      collect(loaded, executor, part, tag);
  }
}

void write_whole(const fs::path& path, const LoadedPlan& loaded,
                 const std::vector<StageTensor>& tensors, Executor& executor, int tag) {
  size_t next = 0;
  const auto whole = [&]() -> at::Tensor {
    const StageTensor& tensor = tensors[next++];
    if (!tensor.tensor) return tensor.own.detach().to(at::kCPU).contiguous();
    return collect(loaded, executor, tensor, tag);
  };
  try {
    std::vector<SafetensorsPlace> places;
    for (const StageTensor& tensor : tensors)
      places.push_back({tensor.name, dtype_of(tensor.own.scalar_type()), tensor.sizes});
    SafetensorsWriter file(path, places);
    for (size_t i = 0; i < tensors.size(); ++i) file.write(i, 0, bytes_of(whole()));
    file.commit();
  } catch (const InputError&) {
    while (next < tensors.size()) whole();  // the others wait for theirs to be taken
    throw;
  }
}

}  // namespace

int writer_of_stage(const LoadedPlan& loaded, int stage) {
  return loaded.plan.rank_at({0, loaded.program.rank_of_stage[static_cast<size_t>(stage)], 0});
}

void write_stage(const fs::path& path, const LoadedPlan& loaded, int stage, Executor& executor,
                 int rank) {
  const int writer = writer_of_stage(loaded, stage);
  const int tag = free_tag(loaded.program, loaded.slicing);
  if (rank != writer) return send_parts(loaded, stage, executor, writer, tag);
  write_whole(path, loaded, stage_state(loaded, stage, executor, rank), executor, tag);
}

namespace {

/// All tensors of some files by name, whichever has them.
class Contents {
 public:
  Contents(const std::vector<fs::path>& paths, std::string place) : place_(std::move(place)) {
    for (const fs::path& path : paths) files_.emplace_back(path);
    for (const SafetensorsFile& file : files_) {
      for (const auto& [name, entry] : file.entries()) where_.emplace(name, &file);
    }
  }

  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> found;
    for (const auto& [name, file] : where_) {
      if (name.starts_with(prefix)) found.push_back(name);
    }
    return found;
  }
  bool has(const std::string& name) const { return where_.contains(name); }
  /// The checkpoint is of the same model, so what it lacks was not trained.
  void require_trained(const std::string& name) const {
    if (has("parameter." + name)) return;
    throw InputError(place_, fmt::format("has no `{}`: it was frozen when this was saved", name),
                     "Freeze it again (optimizer.frozen), or take these weights into a model of "
                     "their own: `penstock export --format state-dict` with the plan of then.");
  }
  at::Tensor read(const std::string& name) const { return read_tensor(*where_.at(name), name); }

  /// `own`: what this rank holds of a whole tensor.
  template <typename Own>
  void copy_to(const std::string& name, at::Tensor& tensor, const Own& own) const {
    if (!has(name)) throw InputError(place_, "has no " + name, "It is of another model.");
    const at::Tensor saved = own(read(name));
    if (saved.sizes() != tensor.sizes() || saved.scalar_type() != tensor.scalar_type()) {
      throw InputError(place_, fmt::format("{} has another shape or dtype than the model's", name),
                       "It is of another model.");
    }
    tensor.copy_(saved);
  }

 private:
  std::string place_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*> where_;
};

/// This rank's part of a saved tensor or state: cut from whole ones, which checkpoints have; a
/// snapshot has the part itself.
at::Tensor own_of_group(const LoadedPlan& loaded, const Executor& executor, int index,
                        const at::Tensor& saved) {
  if (saved.sizes() != at::IntArrayRef(whole_sizes(loaded, index))) return saved;
  const TensorGroup& group = executor.group();
  return sharding::own_part(saved, executor.layout(index), group.parts(), group.part);
}

/// Takes this rank's part of whole tensors; a snapshot has the part itself.
template <typename Own>
void load_optimizer(const Contents& contents, const StoredTensor& stored, int index,
                    at::Device device, Optimizer& optimizer, const Own& own) {
  const std::string& name = stored.name;
  Optimizer::State& state = optimizer.states()[index];
  state.steps = contents.read("steps." + name).item<int64_t>();
  const std::string prefix = "optimizer." + name + ".";
  for (const std::string& key : contents.names(prefix)) {
    const std::string rest = key.substr(prefix.size());
    if (rest.find('.') == std::string::npos) {
      at::Tensor saved = own(contents.read(key));
      if (saved.numel() == stored.elements()) saved = own_part(optimizer.parts(), index, saved);
      state.tensors[rest] = saved.to(device, saved.scalar_type(), false, /*copy=*/true);
    }
  }
}

}  // namespace

void load_state(const std::vector<fs::path>& files, const std::string& place,
                const LoadedPlan& loaded, Executor& executor, bool optimizer) {
  const Contents contents(files, place);
  const std::set<int> updated = updated_buffers(loaded.graph);
  for (const int index : executor.store().indices()) {
    const StoredTensor& stored = loaded.graph.tensors[index];
    at::Tensor& tensor = executor.store().tensor(index);
    const auto own = [&](const at::Tensor& saved) {
      return own_of_group(loaded, executor, index, saved);
    };
    if (updated.contains(index)) contents.copy_to("buffer." + stored.name, tensor, own);
    const std::string parameter = "parameter." + stored.name;
    if (!stored.requires_grad && !contents.has(parameter)) continue;
    contents.require_trained(stored.name);
    contents.copy_to(parameter, tensor, own);
    if (!stored.requires_grad) {  // trained before it was frozen
      executor.store().mark_restored(index);
      continue;
    }
    if (optimizer && executor.updates(index) && contents.has("steps." + stored.name)) {
      load_optimizer(contents, stored, index, tensor.device(), executor.optimizer(), own);
    }
  }
}

}  // namespace penstock
