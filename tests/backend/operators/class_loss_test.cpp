// Cross entropy of classes that the ranks of a tensor group share: loss and gradient of
// at::cross_entropy_loss, with all that it offers.
#include "backend/operators/class_loss.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "backend/operators/parts.hpp"
#include "backend/operators/tensor_group.hpp"
#include "tests/backend/communication/nccl/communicators.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::test::class_loss {
namespace {

using sharding::Layout;

constexpr int64_t classes = 24;
constexpr double tolerance = 1e-10;

struct Case {
  const char* name;
  std::vector<int64_t> logits;  // sizes
  CrossEntropy how;
  Layout held = Layout::split(1);
};

at::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

at::Tensor incoming(at::IntArrayRef sizes) { return random(sizes, 11); }

at::Tensor weights() { return at::linspace(0.5, 2, classes, at::kDouble); }

std::vector<Case> cases() {
  using at::Reduction::None, at::Reduction::Sum, at::Reduction::Mean;
  return {{"mean", {10, classes}, {}},
          {"sum", {10, classes}, {{}, Sum}},
          {"of each row", {10, classes}, {{}, None}},
          {"weights", {10, classes}, {weights()}},
          {"smoothed labels", {10, classes}, {{}, Mean, -100, 0.1}},
          {"all of it", {10, classes}, {weights(), Sum, 3, 0.25}},
          {"weights and smoothed labels", {10, classes}, {weights(), Mean, -100, 0.1}},
          {"blocks", {10, classes}, {weights(), Mean, 5, 0.1}, Layout::split(1, 2)},
          {"images", {2, classes, 3, 5}, {weights(), None, -100, 0.1}},
          {"one sample", {classes}, {}, Layout::split(0)}};
}

at::Tensor targets(const Case& given) {
  std::vector<int64_t> sizes = given.logits;
  sizes.erase(sizes.begin() + given.held.dimension());
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  at::Tensor target = at::randint(classes, sizes, generator, at::kLong);
  if (target.dim() > 0) target.select(0, 1).fill_(given.how.ignore_index);
  return target;
}

struct Ends {
  at::Tensor loss, gradient;
};

template <typename Loss>
Ends ends(at::Tensor logits, Loss loss) {
  logits = logits.detach().clone().requires_grad_();
  const at::Tensor made = loss(logits);
  made.backward(incoming(made.sizes()));
  return {made.detach(), logits.grad()};
}

Ends whole(const Case& given, const at::Tensor& logits, const at::Tensor& target) {
  const CrossEntropy& how = given.how;
  return ends(logits, [&](const at::Tensor& x) {
    return at::cross_entropy_loss(x, target, how.weight, how.reduction, how.ignore_index,
                                  how.label_smoothing);
  });
}

void expect_as_whole(const Case& given, int parts, Communicators (*connect)(int size)) {
  SCOPED_TRACE(std::string(given.name) + ", " + std::to_string(parts) + " parts");
  const at::Tensor logits = random(given.logits, 1), target = targets(given);
  const Ends expected = whole(given, logits, target);
  std::vector<int> ranks;
  for (int rank = 0; rank < parts; ++rank) ranks.push_back(rank);
  std::vector<Ends> found(ranks.size());
  run_ranks(connect(parts), [&](Communicator& communicator) {
    const TensorGroup group{&communicator, ranks, communicator.rank()};
    communicator.connect_group(ranks);
    const InTensorGroup here(group);
    found[group.part] =
        ends(own_part(logits, given.held, parts, group.part), [&](const at::Tensor& own) {
          return cross_entropy_of_classes(own, target, given.how, classes, given.held);
        });
  });
  std::vector<at::Tensor> gradients;
  for (const Ends& own : found) {
    EXPECT_TRUE(own.loss.allclose(expected.loss, tolerance, tolerance));
    EXPECT_TRUE(own.loss.equal(found.front().loss));
    gradients.push_back(own.gradient);
  }
  EXPECT_TRUE(assembled(gradients, given.held).allclose(expected.gradient, tolerance, tolerance));
}

TEST(ClassLoss, IsThatOfTheWholeWithItsGradient) {
  for (const Case& given : cases())
    for (const int parts : {2, 3, 4}) expect_as_whole(given, parts, make_in_process);
}

TEST(ClassLoss, IsThatOfTheWholeOverGlooAndNccl) {
  for (const Case& given : {cases()[0], cases()[6]}) {
    expect_as_whole(given, 2, make_gloo_threads);
    expect_as_whole(given, 3, make_fake_nccl);
  }
}

/// The ends of a rank alone, of whose group no other runs.
Ends alone(const at::Tensor& logits, const at::Tensor& target) {
  const TensorGroup group{nullptr, {0, 1}, 0};
  const InTensorGroup here(group);
  return ends(logits, [&](const at::Tensor& own) {
    return cross_entropy_of_classes(own, target, {}, classes, Layout::split(1));
  });
}

TEST(ClassLoss, OfARankAloneTakesItsClassesForThoseOfOthers) {
  const at::Tensor target = at::zeros({3}, at::kLong);
  const Ends found = alone(at::zeros({3, classes / 2}, at::kDouble), target);
  EXPECT_NEAR(found.gradient[0][1].item<double>(), incoming({}).item<double>() / (3 * classes),
              tolerance);
}

TEST(ClassLoss, HasNoNumberWhereNoTargetCountsAsInPyTorch) {
  const at::Tensor target = at::full({3}, -100, at::kLong);
  EXPECT_TRUE(alone(random({3, classes / 2}, 1), target).loss.isnan().item<bool>());
}

TEST(ClassLoss, TakesLogitsOfClassesThatCannotBe) {
  const double never = -std::numeric_limits<double>::infinity();
  at::Tensor logits = random({4, classes}, 1);
  logits.slice(1, classes / 2).fill_(never);  // all of the second part's
  const Case given{"half of the classes", {4, classes}, {}};
  const at::Tensor target = at::tensor({0, 3, 1, 2}, at::kLong);
  const Ends expected = whole(given, logits, target);
  run_ranks(make_in_process(2), [&](Communicator& communicator) {
    const TensorGroup group{&communicator, {0, 1}, communicator.rank()};
    const InTensorGroup here(group);
    const Ends found =
        ends(own_part(logits, given.held, 2, group.part), [&](const at::Tensor& own) {
          return cross_entropy_of_classes(own, target, {}, classes, given.held);
        });
    EXPECT_TRUE(found.loss.allclose(expected.loss, tolerance, tolerance));
    EXPECT_TRUE(found.gradient.allclose(own_part(expected.gradient, given.held, 2, group.part),
                                        tolerance, tolerance));
  });
}

/// To the rounding of the last place of bfloat16, of numbers below 1 and 8.
TEST(ClassLoss, InBfloat16RoundsOnceMoreThanTheWhole) {
  const at::Tensor logits = random({10, classes}, 1).to(at::kBFloat16);
  const Case given{"bfloat16", {10, classes}, {}};
  const at::Tensor target = targets(given);
  const Ends expected = whole(given, logits.to(at::kDouble), target);
  run_ranks(make_in_process(2), [&](Communicator& communicator) {
    const TensorGroup group{&communicator, {0, 1}, communicator.rank()};
    const InTensorGroup here(group);
    at::Tensor own = own_part(logits, given.held, 2, group.part).requires_grad_();
    const at::Tensor loss = cross_entropy_of_classes(own, target, {}, classes, given.held);
    EXPECT_EQ(loss.scalar_type(), at::kBFloat16);
    EXPECT_NEAR(loss.item<double>(), expected.loss.item<double>(), 8.0 / 256);
    loss.backward();
    EXPECT_EQ(own.grad().scalar_type(), at::kBFloat16);
  });
}

TEST(ClassLoss, RefusesATargetThatIsNoClass) {
  const at::Tensor logits = random({2, classes / 2}, 1);
  EXPECT_NO_THROW(alone(logits, at::tensor({int64_t{0}, classes - 1}, at::kLong)));
  for (const int64_t wrong : {classes, int64_t{-1}})
    EXPECT_THROW(alone(logits, at::tensor({int64_t{0}, wrong}, at::kLong)), c10::IndexError);
}

}  // namespace
}  // namespace penstock::test::class_loss
