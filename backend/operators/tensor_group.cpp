#include "backend/operators/tensor_group.hpp"

#include <stdexcept>

#include "backend/operators/parts.hpp"
#include "graph/sharding/conversions.hpp"

namespace penstock {

using sharding::Step;

namespace {

/// Room for what each rank of the group holds, this rank's filled in.
at::Tensor beside_others(const at::Tensor& own, const TensorGroup& group) {
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), group.parts());
  at::Tensor all = at::empty(sizes, own.options());
  all.select(0, group.part).copy_(own);
  return all;
}

at::Tensor gathered(const at::Tensor& own, const sharding::Layout& layout,
                    const TensorGroup& group) {
  const at::Tensor all = beside_others(own, group);
  std::vector<at::Tensor> held = all.unbind();
  if (group.is_alone()) held.assign(held.size(), all[group.part]);
  if (group.sends(all)) group.communicator->all_gather(all, group.ranks);
  return sharding::assembled(held, layout);
}

at::Tensor summed(const at::Tensor& own, const TensorGroup& group) {
  at::Tensor sum = own.clone(at::MemoryFormat::Contiguous);
  if (group.sends(sum)) group.communicator->all_reduce(sum, group.ranks);
  return sum;
}

/// The pieces of this rank's part that each rank is to have, one after the other.
at::Tensor by_part(const at::Tensor& own, const sharding::Layout& layout,
                   const TensorGroup& group) {
  std::vector<at::Tensor> of_parts;
  for (int part = 0; part < group.parts(); ++part)
    of_parts.push_back(sharding::own_part(own, layout, group.parts(), part));
  return at::stack(of_parts);
}

at::Tensor part_of_sum(const at::Tensor& own, const sharding::Layout& layout,
                       const TensorGroup& group) {
  const at::Tensor all = by_part(own, layout, group);
  if (group.sends(all)) group.communicator->reduce_scatter(all, group.ranks);
  return all.select(0, group.part).clone();
}

/// An all-gather where both split one dimension, in other blocks: ranks then need more of some
/// than of others.
at::Tensor exchanged(const at::Tensor& own, const sharding::Layout& from,
                     const sharding::Layout& to, const TensorGroup& group) {
  if (from.dimension() == to.dimension())
    return sharding::own_part(gathered(own, from, group), to, group.parts(), group.part);
  const at::Tensor sent = by_part(own, to, group), received = at::empty_like(sent);
  if (group.sends(sent)) group.communicator->all_to_all(sent, received, group.ranks);
  return sharding::assembled((group.is_alone() ? sent : received).unbind(), from);
}

}  // namespace

at::Tensor converted(const at::Tensor& own, const sharding::Layout& from,
                     const sharding::Layout& to, const TensorGroup& group) {
  const int parts = group.parts(), part = group.part;
  switch (sharding::conversion(from, to).forward) {
    case Step::keep: return own;
    case Step::slice: return sharding::own_part(own, to, parts, part);
    case Step::pad: return sharding::among_zeros(own, from, parts, part);
    case Step::first_only: return part == 0 ? own : at::zeros_like(own);
    case Step::all_reduce: return summed(own, group);
    case Step::reduce_scatter: return part_of_sum(own, to, group);
    case Step::all_gather: return gathered(own, from, group);
    case Step::all_to_all: return exchanged(own, from, to, group);
  }
  throw std::logic_error("no such conversion");
}

at::Tensor collected(const at::Tensor& own, const sharding::Layout& layout,
                     const TensorGroup& group, int tag) {
  if (!layout.is_split())
    return group.part == 0 ? own.detach().to(at::kCPU).contiguous() : at::Tensor();
  const at::Tensor given = own.detach().to(at::kCPU).contiguous();
  if (group.part != 0) {
    group.communicator->send({group.ranks.front(), false}, given, tag)->wait();
    return {};
  }
  std::vector<at::Tensor> held{given};
  for (int part = 1; part < group.parts(); ++part) {
    held.push_back(at::empty_like(given));
    const int rank = group.ranks[static_cast<size_t>(part)];
    group.communicator->receive({rank, false}, held.back(), tag)->wait();
  }
  return sharding::assembled(held, layout);
}

}  // namespace penstock
