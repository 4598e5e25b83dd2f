// A snapshot is the state of one moment, whole or not there at all.
#include "backend/worker/snapshots.hpp"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <future>

#include "launch/supervision/slot.hpp"

namespace penstock {
namespace {

class SnapshotsTest : public ::testing::Test {
 protected:
  NamedTensors buffers{{"buffer.mean", at::arange(5, at::kFloat)}};
  NamedTensors trained{{"parameter.weight", at::arange(12, at::kFloat).view({3, 4}).t()},
                       {"steps.weight", at::scalar_tensor(7, at::kLong)}};
  std::array<SnapshotSlot, 2> slots;
  SharedProgress progress;
  Snapshots snapshots{{slots[0].descriptor(), slots[1].descriptor()}, progress};

  void expect_state(size_t slot) const {
    const SafetensorsFile file(snapshots.file(slot));
    EXPECT_EQ(file.entries().size(), 3U);
    for (const auto* tensors : {&buffers, &trained}) {
      for (const auto& [name, tensor] : *tensors) {
        EXPECT_TRUE(read_tensor(file, name).equal(tensor)) << name;
      }
    }
    EXPECT_EQ(progress.checksum(slot), slots[slot].checksum());
  }
};

TEST_F(SnapshotsTest, LieInTheSlotOfTheirStepWithTheirChecksum) {
  snapshots.begin(4, buffers, trained);
  snapshots.finish();
  EXPECT_EQ(progress.snapshots(), (SlotSteps{4, -1}));
  snapshots.begin(5, buffers, trained);
  snapshots.finish();
  EXPECT_EQ(progress.snapshots(), (SlotSteps{4, 5}));
  for (const size_t slot : {0, 1}) expect_state(slot);
}

TEST_F(SnapshotsTest, ReplaceLongerOnes) {
  NamedTensors longer = trained;
  longer.emplace_back("optimizer.weight.exp_avg", at::arange(1 << 20));
  snapshots.begin(2, buffers, longer);
  snapshots.begin(4, buffers, trained);
  snapshots.finish();
  expect_state(0);
}

TEST_F(SnapshotsTest, HaveTheBuffersOfThatMomentWhateverTheNextStepMakesOfThem) {
  const at::Tensor before = buffers[0].second.clone();
  std::promise<void> changed;
  snapshots.while_copying = [&](int64_t) { changed.get_future().wait(); };
  snapshots.begin(1, buffers, trained);
  buffers[0].second.fill_(9);
  changed.set_value();
  snapshots.finish();
  buffers[0].second = before;
  expect_state(1);
}

TEST_F(SnapshotsTest, AreNotThereUntilTheyAreComplete) {
  snapshots.begin(2, buffers, trained);
  snapshots.finish();
  SlotSteps seen{};
  snapshots.while_copying = [&](int64_t step) {
    seen = progress.snapshots();
    throw std::runtime_error("in step " + std::to_string(step));
  };
  snapshots.begin(4, buffers, trained);
  EXPECT_THROW(snapshots.finish(), std::runtime_error);
  EXPECT_EQ(seen, (SlotSteps{-1, -1}));
  EXPECT_EQ(progress.snapshots(), (SlotSteps{-1, -1}));
  snapshots.finish();  // it is told once
}

}  // namespace
}  // namespace penstock
