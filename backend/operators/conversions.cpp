// The operators of graph/sharding/collectives.hpp, as the dispatcher knows them. A group is that of
// the thread that runs the forward; it rides in the node of autograd's graph, since a backward may
// run on another thread.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <stdexcept>
#include <string>

#include "backend/operators/gathered_again.hpp"
#include "backend/operators/parts.hpp"
#include "backend/operators/tensor_group.hpp"
#include "graph/sharding/conversions.hpp"

namespace penstock {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

thread_local const TensorGroup* group_of_thread = nullptr;

/// A conversion that was made, kept for its backward.
struct Converted : torch::CustomClassHolder {
  Converted(TensorGroup among, sharding::Layout before, sharding::Layout after)
      : group(std::move(among)), from(before), to(after) {}
  const TensorGroup group;
  const sharding::Layout from, to;
  std::shared_ptr<GatheredAgain> again;  // where the backward gathers it again
};

class Conversion : public torch::autograd::Function<Conversion> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own,
                            const c10::intrusive_ptr<Converted>& done) {
    context->saved_data["done"] = c10::IValue::make_capsule(done);
    const at::Tensor made = converted(own, done->from, done->to, done->group);
    return done->again ? made.variable_data() : made;  // what is viewed then has this history
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto done =
        c10::static_intrusive_pointer_cast<Converted>(context->saved_data.at("done").toCapsule());
    done->again.reset();
    return {converted(gradients[0], done->to.gradient(), done->from.gradient(), done->group),
            at::Tensor()};
  }
};

sharding::Layout parsed(const std::string& text) {
  if (const auto layout = sharding::Layout::parse(text)) return *layout;
  throw std::invalid_argument("`" + text + "` is no layout");
}

at::Tensor convert(const at::Tensor& self, const std::string& from, const std::string& to) {
  return Conversion::apply(
      self, c10::make_intrusive<Converted>(current_group(), parsed(from), parsed(to)));
}

at::Tensor gather_again(const at::Tensor& self, const std::string& from, const std::string& to) {
  auto done = c10::make_intrusive<Converted>(current_group(), parsed(from), parsed(to));
  done->again = std::make_shared<GatheredAgain>(self.detach(), done->from, done->to, done->group);
  return Conversion::apply(self, done);
}

at::Tensor embedding_of_rows(const at::Tensor& weight, const at::Tensor& indices,
                             int64_t padding_idx, int64_t rows, const std::string& held) {
  const sharding::Layout layout = parsed(held);
  const TensorGroup& group = current_group();
  const auto own_of = [&](const at::Tensor& ids) {
    return sharding::own_index(ids, rows, layout, group.parts(), group.part);
  };
  const sharding::OwnIndex own = own_of(indices);
  int64_t padding = -1;
  if (padding_idx >= 0) {
    const sharding::OwnIndex row = own_of(at::scalar_tensor(padding_idx, at::kLong));
    if (row.found.item<bool>()) padding = row.index.item<int64_t>();
  }
  const at::Tensor looked_up = at::embedding(weight, own.index, padding);
  return looked_up.masked_fill(own.found.logical_not().unsqueeze(-1), 0);
}

}  // namespace

InTensorGroup::InTensorGroup(const TensorGroup& group) : before_(group_of_thread) {
  group_of_thread = &group;
}
InTensorGroup::~InTensorGroup() { group_of_thread = before_; }

const TensorGroup& current_group() {
  if (group_of_thread == nullptr) throw std::logic_error("a conversion outside a tensor group");
  return *group_of_thread;
}

bool in_tensor_group() { return group_of_thread != nullptr && group_of_thread->parts() > 1; }

/// A view is asked for what it is a view of. What is written in place has another history.
std::shared_ptr<GatheredAgain> gathered_again(const at::Tensor& tensor) {
  const at::TensorBase& base = tensor.is_view() ? tensor._base() : tensor;
  const auto node = std::dynamic_pointer_cast<torch::autograd::CppNode<Conversion>>(base.grad_fn());
  if (!node) return nullptr;
  const auto done = node->ctx_.saved_data.find("done");
  if (done == node->ctx_.saved_data.end()) return nullptr;
  return c10::static_intrusive_pointer_cast<Converted>(done->second.toCapsule())->again;
}

TORCH_LIBRARY_FRAGMENT(penstock, library) {
  for (const char* name : {"own_part", "among_zeros", "first_only", "all_reduce", "reduce_scatter",
                           "all_gather", "all_to_all"})
    library.def((std::string(name) + "(Tensor self, str from, str to) -> Tensor").c_str(),
                torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, convert));
  library.def("all_gather_again(Tensor self, str from, str to) -> Tensor",
              torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, gather_again));
  library.def("identity(Tensor(a) self, str from, str to) -> Tensor(a)",
              torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, convert));
  library.def(
      "embedding_of_rows(Tensor weight, Tensor indices, int padding_idx=-1, *, int rows, str held) "
      "-> Tensor",
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, embedding_of_rows));
}

}  // namespace penstock
