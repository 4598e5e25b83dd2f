// Values that the backward gathers again: autograd keeps the part, each backward gathers once, and
// gradients are those of what is kept, to the bit.
#include <ATen/SequenceNumber.h>
#include <gmock/gmock.h>

#include "backend/operators/gathered_again.hpp"
#include "backend/operators/parts.hpp"
#include "backend/stage/backward/autograd_split.hpp"
#include "backend/stage/backward/leaf.hpp"
#include "graph/sharding/collectives.hpp"
#include "tests/backend/communication/forwarding.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::sharding {
namespace {

constexpr int parts = 2;

at::Tensor normal(std::vector<int64_t> sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

/// Counts the all-gathers that a rank takes part in.
class Counter final : public test::Forwarding {
 public:
  explicit Counter(Communicator& inner) : inner_(inner) {}
  void all_gather(const at::Tensor& tensor, const std::vector<int>& ranks) override {
    ++gathers;
    inner_.all_gather(tensor, ranks);
  }

  int gathers = 0;

 private:
  Communicator& inner() const override { return inner_; }
  Communicator& inner_;
};

/// A rank's [3, 12] of a [6, 12], gathered and read by two products with parameters (one of them
/// through a view), and by gelu where that is asked for.
class Readers {
 public:
  Readers(Communicator& communicator, bool again, bool gelu)
      : counter_(communicator), group_{&counter_, {0, 1}, communicator.rank()} {
    Leaf own = leaf(normal({3, 12}, 1 + communicator.rank()));
    input_ = own.edge;
    const InTensorGroup here(group_);
    at::Tensor whole = gather(own.tensor, again);
    memory_ = whole.storage().getWeakStorageImpl();
    multiply(whole, normal({12, 5}, 3));
    multiply(whole.view({3, 24}), normal({24, 4}, 4));
    if (!gelu) return;
    const SavesParts saving({whole}, false);
    roots_.add(gradient_edge(at::gelu(whole)), normal({6, 12}, 7));
  }

  bool is_kept() const { return !memory_->expired(); }
  int gathers() const { return counter_.gathers; }
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

  void backward() { backward_whole(std::exchange(roots_, {})); }
  void backward_input() {
    gradients_[0] = backward_to_inputs(std::exchange(roots_, {}), {input_}, uses_).front();
  }
  void backward_weight() {
    for (; !uses_.empty(); uses_.pop_back()) backward_to_leaves(std::move(uses_.back()));
  }

 private:
  Leaf leaf(const at::Tensor& value) {
    gradients_.emplace_back();
    return make_leaf(value, [this, at = gradients_.size() - 1](at::Tensor gradient) {
      gradients_[at] = std::move(gradient);
    });
  }
  static at::Tensor gather(const at::Tensor& own, bool again) {
    const Operator op =
        conversion_operator(conversion(Layout::split(0), Layout::replicated()), 0, again);
    torch::jit::Stack stack{own, std::string("S(0)"), std::string("R")};
    c10::Dispatcher::singleton().findSchemaOrThrow(op.target.c_str(), "").callBoxed(stack);
    return stack.at(0).toTensor();
  }
  void multiply(const at::Tensor& whole, const at::Tensor& parameter) {
    WeightUse use{.begin = at::sequence_number::peek()};
    const Leaf weight = leaf(parameter);
    use.leaves = {weight.edge};
    const SavesParts saving({whole, weight.tensor}, true);
    const at::Tensor product = at::mm(whole, weight.tensor);
    use.outputs = {gradient_edge(product)};
    use.end = at::sequence_number::peek();
    roots_.add(use.outputs.front(), normal(product.sizes().vec(), 5));
    uses_.push_back(std::move(use));
  }

  Counter counter_;
  const TensorGroup group_;
  std::vector<at::Tensor> gradients_;
  torch::autograd::Edge input_;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> memory_;
  Roots roots_;
  std::vector<WeightUse> uses_;
};

template <class Use>
void on_each_rank(Use use) {
  test::run_ranks(make_in_process(parts), [&](Communicator& communicator) {
    communicator.connect_group({0, 1});
    use(communicator);
  });
}

void expect_equal(const Readers& one, const Readers& other) {
  for (size_t i = 0; i < one.gradients().size(); ++i)
    EXPECT_TRUE(one.gradients()[i].equal(other.gradients()[i])) << "gradient " << i;
}

TEST(GatheredAgain, OnceInABackwardWhichKeepsThePart) {
  on_each_rank([](Communicator& communicator) {
    for (const bool gelu : {false, true}) {
      Readers kept(communicator, false, gelu), again(communicator, true, gelu);
      EXPECT_TRUE(kept.is_kept());
      EXPECT_FALSE(again.is_kept());
      kept.backward(), again.backward();
      EXPECT_EQ(kept.gathers(), 1);
      EXPECT_EQ(again.gathers(), 2);
      expect_equal(again, kept);
    }
  });
}

/// A product's gradient for its input needs the parameter alone.
TEST(GatheredAgain, InWAloneWhereProductsReadIt) {
  on_each_rank([](Communicator& communicator) {
    for (const bool gelu : {false, true}) {
      Readers kept(communicator, false, gelu), again(communicator, true, gelu);
      kept.backward_input(), again.backward_input();
      EXPECT_EQ(again.gathers(), gelu ? 2 : 1);
      kept.backward_weight(), again.backward_weight();
      EXPECT_EQ(again.gathers(), gelu ? 3 : 2);
      EXPECT_EQ(kept.gathers(), 1);
      expect_equal(again, kept);
    }
  });
}

/// A value that is changed in place is not the one that was gathered.
TEST(GatheredAgain, NotWhatIsWrittenSince) {
  on_each_rank([](Communicator& communicator) {
    const TensorGroup group{&communicator, {0, 1}, communicator.rank()};
    const InTensorGroup here(group);
    at::Tensor own = normal({3, 12}, 1 + communicator.rank()).requires_grad_();
    torch::jit::Stack stack{own, std::string("S(0)"), std::string("R")};
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("penstock::all_gather_again", "")
        .callBoxed(stack);
    at::Tensor whole = stack.at(0).toTensor();
    EXPECT_NE(gathered_again(whole.view({72})), nullptr);
    whole.mul_(2);
    EXPECT_EQ(gathered_again(whole), nullptr);
  });
}

}  // namespace
}  // namespace penstock::sharding
