// Conversions between the layouts of a tensor group, as operators with autograd: ranks that are
// threads hold parts of one tensor and of one gradient before, and of the same two after.
#include <gmock/gmock.h>

#include "backend/operators/parts.hpp"
#include "backend/operators/tensor_group.hpp"
#include "graph/sharding/collectives.hpp"
#include "tests/backend/communication/nccl/communicators.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::sharding {
namespace {

using Kind = Layout::Kind;

const std::vector<Layout> layouts{Layout::identical(), Layout::replicated(), Layout::partial(),
                                  Layout::split(0),    Layout::split(1),     Layout::split(1, 2)};

at::Tensor numbers(uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randint(-8, 8, {6, 12}, generator, at::kDouble);
}

/// The terms of a sum are arbitrary but for the first.
at::Tensor hold(const at::Tensor& whole, const Layout& layout, int parts, int part) {
  if (layout.kind() != Kind::partial) return own_part(whole, layout, parts, part).clone();
  if (part > 0) return numbers(100 + part);
  at::Tensor rest = whole.clone();
  for (int other = 1; other < parts; ++other) rest -= numbers(100 + other);
  return rest;
}

void expect_held(const std::vector<at::Tensor>& held, const Layout& layout,
                 const at::Tensor& whole) {
  const bool terms = layout.kind() == Kind::partial;
  const at::Tensor found = terms ? at::stack(held).sum(0) : assembled(held, layout);
  EXPECT_TRUE(found.equal(whole)) << layout.str();
  if (layout.is_split() || terms) return;
  for (const at::Tensor& own : held) EXPECT_TRUE(own.equal(whole)) << layout.str();
}

at::Tensor call(const Operator& op, const at::Tensor& own) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.target.c_str(), "");
  torch::jit::Stack stack{own, std::get<std::string>(op.arguments[1].value),
                          std::get<std::string>(op.arguments[2].value)};
  handle.callBoxed(stack);
  return stack.at(0).toTensor();
}

/// The results of a conversion: of a value, and of the result's gradient.
struct Ends {
  at::Tensor value, gradient;
};

Ends convert(const TensorGroup& group, const Layout& from, const Layout& to,
             const at::Tensor& value, const at::Tensor& gradient) {
  at::Tensor own = hold(value, from, group.parts(), group.part).requires_grad_();
  at::Tensor result;
  {
    const InTensorGroup here(group);
    result = call(conversion_operator(conversion(from, to), 0), own);
  }
  result.backward(hold(gradient, to.gradient(), group.parts(), group.part));
  return {result.detach(), own.grad()};
}

std::vector<Conversion> all_conversions() {
  std::vector<Conversion> all;
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) all.push_back(conversion(from, to));
  return all;
}

void expect_conversions_keep_value_and_gradient(int parts,
                                                test::Communicators (*connect)(int size)) {
  const at::Tensor value = numbers(1), gradient = numbers(2);
  std::vector<int> ranks;
  for (int rank = 0; rank < parts; ++rank) ranks.push_back(rank);
  std::vector<std::vector<Ends>> ends(ranks.size());  // by part and conversion
  test::run_ranks(connect(parts), [&](Communicator& communicator) {
    const TensorGroup group{&communicator, ranks, communicator.rank()};
    communicator.connect_group(ranks);
    for (const Conversion& each : all_conversions())
      ends[group.part].push_back(convert(group, each.from, each.to, value, gradient));
  });
  for (size_t i = 0; i < all_conversions().size(); ++i) {
    const Conversion each = all_conversions()[i];
    SCOPED_TRACE(each.from.str() + " -> " + each.to.str());
    std::vector<at::Tensor> values, gradients;
    for (const auto& of_part : ends) {
      values.push_back(of_part[i].value);
      gradients.push_back(of_part[i].gradient);
    }
    expect_held(values, each.to, value);
    expect_held(gradients, each.from.gradient(), gradient);
  }
}

TEST(Conversions, KeepValueAndGradientInProcess) {
  for (const int parts : {2, 3}) expect_conversions_keep_value_and_gradient(parts, make_in_process);
}

TEST(Conversions, KeepValueAndGradientInLocalMemory) {
  for (const int parts : {2, 3})
    expect_conversions_keep_value_and_gradient(parts, test::make_local_threads);
}

TEST(Conversions, KeepValueAndGradientOverGloo) {
  for (const int parts : {2, 3})
    expect_conversions_keep_value_and_gradient(parts, test::make_gloo_threads);
}

TEST(Conversions, KeepValueAndGradientOverNccl) {
  for (const int parts : {2, 3})
    expect_conversions_keep_value_and_gradient(parts, test::make_fake_nccl);
}

/// All parts of a tensor of ones are alike.
TEST(Conversions, OfARankAloneTakeWhatItHasForWhatOthersHave) {
  const at::Tensor ones = at::ones({6, 12}, at::kDouble);
  const TensorGroup alone{nullptr, {0, 1, 2}, 0};
  for (const Conversion& each : all_conversions()) {
    SCOPED_TRACE(each.from.str() + " -> " + each.to.str());
    const Ends ends = convert(alone, each.from, each.to, ones, ones);
    const at::Tensor held = hold(ones, each.to, 3, 0);
    EXPECT_EQ(ends.value.sizes(), held.sizes());
    EXPECT_EQ(ends.gradient.sizes(), hold(ones, each.from.gradient(), 3, 0).sizes());
    const bool terms = each.from == Layout::partial() || each.to == Layout::partial();
    EXPECT_TRUE(terms || ends.value.equal(held));
  }
}

TEST(Conversions, AreRefusedOutsideAGroup) {
  const Operator op = conversion_operator(conversion(Layout::split(0), Layout::identical()), 0);
  EXPECT_THROW(call(op, numbers(1)), std::logic_error);
}

TEST(Conversions, PartsOfATensorAreCollectedAtTheFirst) {
  test::run_ranks(make_in_process(3), [](Communicator& communicator) {
    const TensorGroup group{&communicator, {0, 1, 2}, communicator.rank()};
    for (const Layout& layout : {Layout::split(1, 2), Layout::identical()}) {
      const at::Tensor own = own_part(numbers(1), layout, 3, group.part);
      const at::Tensor whole = collected(own, layout, group, 7);
      EXPECT_EQ(whole.defined(), group.part == 0);
      EXPECT_TRUE(group.part != 0 || whole.equal(numbers(1)));
    }
  });
}

TEST(EmbeddingOfRows, AddsUpToTheWholeTableAndItsGradient) {
  const at::Tensor table = numbers(3), indices = at::tensor({0, 5, 2, 2, 4, 1}, at::kLong);
  at::Tensor whole = table.clone().requires_grad_();
  const at::Tensor expected = at::embedding(whole, indices, /*padding_idx=*/2);
  expected.backward(at::ones_like(expected));
  std::vector<at::Tensor> results(3), gradients(3);
  test::run_ranks(make_in_process(3), [&](Communicator& communicator) {
    const TensorGroup group{&communicator, {0, 1, 2}, communicator.rank()};
    const InTensorGroup here(group);
    at::Tensor own = own_part(table, Layout::split(0), 3, group.part).requires_grad_();
    const auto handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("penstock::embedding_of_rows", "");
    torch::jit::Stack stack{own, indices, 2, 6, std::string("S(0)")};
    handle.callBoxed(stack);
    stack.at(0).toTensor().backward(at::ones({6, 12}, at::kDouble));
    results[group.part] = stack.at(0).toTensor().detach();
    gradients[group.part] = own.grad();
  });
  EXPECT_TRUE(at::stack(results).sum(0).equal(expected.detach()));
  EXPECT_TRUE(at::cat(gradients).equal(whole.grad()));
}

}  // namespace
}  // namespace penstock::sharding
