#include "backend/operators/parts.hpp"

namespace penstock::sharding {
namespace {

/// The split dimension as blocks, parts, and what a part has of a block: of part `part`.
at::Tensor part_of_blocks(const at::Tensor& whole, const Layout& split, int parts, int part) {
  const int64_t d = split.dimension(), length = whole.size(d) / (split.blocks() * parts);
  return whole.unflatten(d, {split.blocks(), parts, length}).select(d + 1, part);
}

}  // namespace

at::Tensor own_part(const at::Tensor& whole, const Layout& layout, int parts, int part) {
  if (!layout.is_split()) return whole;
  const int64_t d = layout.dimension();
  return part_of_blocks(whole, layout, parts, part)
      .clone(at::MemoryFormat::Contiguous)
      .flatten(d, d + 1);
}

at::Tensor assembled(const std::vector<at::Tensor>& held, const Layout& layout) {
  if (!layout.is_split()) return held.front();
  const int64_t d = layout.dimension();
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& own : held)
    blocks.push_back(own.unflatten(d, {layout.blocks(), own.size(d) / layout.blocks()}));
  return at::stack(blocks, d + 1).flatten(d, d + 2);
}

OwnIndex own_index(const at::Tensor& indices, int64_t size, const Layout& split, int parts,
                   int part) {
  OwnIndex own{at::zeros_like(indices), at::zeros_like(indices, at::kBool)};
  int64_t before = 0;
  for (const auto& [begin, end] : held_ranges(split, {size}, parts, part)) {
    const at::Tensor within = indices.ge(begin).logical_and_(indices.lt(end));
    own.index = at::where(within, indices - begin + before, own.index);
    own.found.logical_or_(within);
    before += end - begin;
  }
  return own;
}

at::Tensor among_zeros(const at::Tensor& own, const Layout& split, int parts, int part) {
  const int64_t d = split.dimension();
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes[static_cast<size_t>(d)] *= parts;
  at::Tensor whole = at::zeros(sizes, own.options());
  part_of_blocks(whole, split, parts, part)
      .copy_(own.unflatten(d, {split.blocks(), own.size(d) / split.blocks()}));
  return whole;
}

}  // namespace penstock::sharding
