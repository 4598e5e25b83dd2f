#include "backend/stage/recipe/store.hpp"

#include <ATen/core/grad_mode.h>
#include <span>
#include <stdexcept>
#include <utility>

#include "backend/operators/dtype.hpp"
#include "backend/stage/recipe/initial_values.hpp"

namespace penstock {
namespace {

at::Tensor load(const StoredTensor& stored, const WeightFile& file, at::Device device) {
  at::Tensor tensor =
      at::empty(stored.sizes, at::TensorOptions(scalar_type(stored.dtype)).device(at::kCPU));
  if (tensor.numel() > 0) {
    file.read(stored, std::span(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()));
  }
  return tensor.to(device);
}

/// The gradient of an embedding may be sparse.
at::Tensor dense(at::Tensor gradient) {
  return gradient.layout() == at::kStrided ? std::move(gradient) : gradient.to_dense();
}

}  // namespace

bool exclusively_owned(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.is_contiguous() && tensor.storage().use_count() == 1 &&
         tensor.storage().nbytes() == tensor.nbytes();
}

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

TensorStore::TensorStore(const Graph& graph, const std::set<int>& indices, at::Device device)
    : indices_(indices), device_(device) {
  if (indices.empty()) return;
  const WeightFile file(graph.path);
  const std::map<int, InitialValues> initial = read_initial_values(graph);
  for (const int index : indices) {
    const StoredTensor& stored = graph.tensors.at(index);
    const auto steps = initial.find(index);
    entries_[index].tensor = steps == initial.end()
                                 ? load(stored, file, device)
                                 : initial_tensor(stored, steps->second).to(device);
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
