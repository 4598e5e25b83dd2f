#include "backend/stage/recipe/store.hpp"

#include <ATen/core/grad_mode.h>
#include <span>
#include <stdexcept>
#include <utility>

#include "backend/operators/dtype.hpp"
#include "backend/stage/recipe/initial_values.hpp"

namespace penstock {
namespace {

/// A tensor of the CPU whose bytes `read` fills in.
template <typename Read>
at::Tensor filled(const std::vector<int64_t>& sizes, DType dtype, const Read& read) {
  at::Tensor tensor = at::empty(sizes, scalar_type(dtype));
  if (tensor.numel() > 0)
    read(std::span(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()));
  return tensor;
}

/// Loads tensors one after the other, each from where its values are.
class Loader {
 public:
  Loader(const Graph& graph, const MatchedWeights* weights)
      : graph_(graph), file_(graph.path), initial_(read_initial_values(graph)), weights_(weights) {}

  at::Tensor load(int index) const {
    const StoredTensor& stored = graph_.tensors.at(static_cast<size_t>(index));
    if (weights_ != nullptr && weights_->tensors.contains(index))
      return given(weights_->tensors.at(index)).to(scalar_type(stored.dtype));
    if (const auto steps = initial_.find(index); steps != initial_.end())
      return initial_tensor(stored, steps->second);
    return filled(stored.sizes, stored.dtype, [&](auto bytes) { file_.read(stored, bytes); });
  }

 private:
  static at::Tensor given(const MatchedTensor& matched) {
    const SafetensorsEntry& entry = matched.file->entry(matched.name);
    return filled(entry.shape, entry.dtype,
                  [&](auto bytes) { matched.file->read(entry, 0, bytes); });
  }

  const Graph& graph_;
  WeightFile file_;
  std::map<int, InitialValues> initial_;
  const MatchedWeights* weights_;
};

/// The gradient of an embedding may be sparse.
at::Tensor dense(at::Tensor gradient) {
  return gradient.layout() == at::kStrided ? std::move(gradient) : gradient.to_dense();
}

/// Is `tensor` the only reference to its memory, and does it cover all of it in row-major order?
/// Then it can be kept instead of copied.
bool exclusively_owned(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.is_contiguous() && tensor.storage().use_count() == 1 &&
         tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

void add_gradient(at::Tensor& sum, at::Tensor gradient) {
  const at::NoGradGuard no_grad;
  gradient = dense(std::move(gradient));
  if (sum.defined()) {
    sum.add_(gradient);
  } else if (exclusively_owned(gradient)) {
    sum = std::move(gradient);
  } else {
    sum = gradient.clone(at::MemoryFormat::Contiguous);
  }
}

TensorStore::TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device,
                         const MatchedWeights* weights, const MakeHeld& held)
    : indices_(indices), device_(device) {
  if (indices.empty()) return;
  const Loader loader(graph, weights);
  for (const int index : indices) {
    entries_[index].tensor = held(index, loader.load(index)).to(device);
    const bool parameter = graph.tensors[static_cast<size_t>(index)].kind ==
                           StoredTensor::Kind::parameter;  // checkpoints need it, also where frozen
    if (parameter && weights != nullptr && weights->tensors.contains(index)) mark_restored(index);
  }
}

TensorStore::TensorStore(const std::map<int, at::Tensor>& tensors, at::Device device)
    : device_(device) {
  for (const auto& [index, tensor] : tensors) {
    indices_.insert(index);
    entries_[index].tensor = tensor.contiguous();
  }
}

TensorStore::Entry& TensorStore::entry(int index) {
  const auto found = entries_.find(index);
  if (found == entries_.end()) {
    throw std::logic_error("tensor " + std::to_string(index) + " is not in this rank's store");
  }
  return found->second;
}

at::Tensor& TensorStore::tensor(int index) { return entry(index).tensor; }

at::ScalarType TensorStore::sum_type(at::ScalarType type) const {
  return sum_in_float32_ && type == at::kBFloat16 ? at::kFloat : type;
}

at::Tensor TensorStore::zero_gradient(const Entry& entry) const {
  return at::zeros_like(entry.tensor,
                        entry.tensor.options().dtype(sum_type(entry.tensor.scalar_type())));
}

void TensorStore::accumulate(int index, at::Tensor gradient) {
  Entry& stored = entry(index);
  const at::NoGradGuard no_grad;
  gradient = dense(std::move(gradient));
  const at::ScalarType type = sum_type(gradient.scalar_type());
  const bool kept = !stored.placed && type == gradient.scalar_type() && exclusively_owned(gradient);
  if (stored.fresh && stored.gradient.defined() && !kept) {
    stored.gradient.copy_(gradient);
  } else if (stored.fresh) {
    stored.gradient.reset();
    add_gradient(stored.gradient,
                 type == gradient.scalar_type() ? std::move(gradient) : gradient.to(type));
  } else {
    add_gradient(stored.gradient, std::move(gradient));
  }
  stored.fresh = false;
  if (added_) added_(index);
}

void TensorStore::accumulate(int index, const ViewGeometry& view, const at::Tensor& gradient) {
  Entry& stored = entry(index);
  const at::NoGradGuard no_grad;
  if (!stored.gradient.defined()) {
    stored.gradient = zero_gradient(stored);
  } else if (stored.fresh) {
    stored.gradient.zero_();
  }
  at::Tensor& sum = stored.gradient;
  sum.as_strided(view.sizes, view.strides, sum.storage_offset() + view.offset)
      .add_(dense(gradient));
  stored.fresh = false;
  if (added_) added_(index);
}

void TensorStore::place_gradient(int index, at::Tensor place) {
  Entry& stored = entry(index);
  stored.gradient = std::move(place);
  stored.placed = true;
}

at::Tensor& TensorStore::gradient(int index) {
  Entry& stored = entry(index);
  if (!stored.fresh) return stored.gradient;
  none_.reset();
  return none_;
}

void TensorStore::clear_gradients() {
  for (auto& [index, stored] : entries_) stored.fresh = true;
}

void TensorStore::drop_gradients() {
  clear_gradients();
  for (auto& [index, stored] : entries_) {
    if (!stored.placed) stored.gradient.reset();
  }
}

std::map<int, at::Tensor> TensorStore::gradients() const {
  std::map<int, at::Tensor> gradients;
  for (const auto& [index, stored] : entries_) {
    if (!stored.fresh) gradients[index] = stored.gradient;
  }
  return gradients;
}

void TensorStore::set_gradients(const std::map<int, at::Tensor>& gradients) {
  for (const auto& [index, gradient] : gradients) {
    Entry& stored = entry(index);
    stored.gradient = gradient;
    stored.fresh = false;
  }
}

}  // namespace penstock
