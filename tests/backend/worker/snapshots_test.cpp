// A snapshot is the state of one moment, whole or not there at all.
#include "backend/worker/snapshots.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>
#include <set>
#include <thread>

#include "launch/supervision/checksum.hpp"
#include "launch/supervision/rotation.hpp"
#include "launch/supervision/slot.hpp"

namespace penstock {
namespace {

class SnapshotsTest : public ::testing::Test {
 protected:
  NamedTensors buffers{{"buffer.mean", at::arange(5, at::kFloat)}};
  NamedTensors trained{{"parameter.weight", at::arange(12, at::kFloat).view({3, 4}).t()},
                       {"steps.weight", at::scalar_tensor(7, at::kLong)}};
  std::array<SnapshotSlot, kSlots> slots;
  SharedProgress progress;
  SpareTime spare;
  Snapshots snapshots{
      std::vector{slots[0].descriptor(), slots[1].descriptor(), slots[2].descriptor()}, progress,
      spare};

  void expect_state(size_t slot) const {
    const SafetensorsFile file(slots[slot].file());
    EXPECT_EQ(file.entries().size(), buffers.size() + trained.size());
    for (const auto* tensors : {&buffers, &trained}) {
      for (const auto& [name, tensor] : *tensors) {
        EXPECT_TRUE(read_tensor(file, name).equal(tensor)) << name;
      }
    }
    EXPECT_EQ(progress.checksum(slot), slots[slot].checksum());
  }
};

TEST_F(SnapshotsTest, LieInASlotWithTheirChecksum) {
  snapshots.begin(4, buffers, trained);
  snapshots.finish();
  EXPECT_EQ(progress.slots().steps, (SlotSteps{4, -1, -1}));
  snapshots.begin(5, buffers, trained);
  snapshots.finish();
  EXPECT_EQ(progress.slots().steps, (SlotSteps{4, 5, -1}));
  for (const size_t slot : {0, 1}) expect_state(slot);
  EXPECT_EQ(snapshots.file(5), "/proc/self/fd/" + std::to_string(slots[1].descriptor()));
}

off_t bytes_in(const SnapshotSlot& slot) {
  struct stat status {};
  fstat(slot.descriptor(), &status);
  return 512 * status.st_blocks;
}

TEST_F(SnapshotsTest, StayUntilTheyAreSavedAndThenGiveTheirMemoryBack) {
  for (const int64_t step : {4, 5, 6}) snapshots.begin(step, buffers, trained, step == 4);
  snapshots.finish();
  EXPECT_EQ(progress.slots().steps, (SlotSteps{4, 5, 6}));
  expect_state(0);
  progress.saved(0);
  snapshots.begin(7, buffers, trained);
  snapshots.finish();
  EXPECT_EQ(progress.slots().steps, (SlotSteps{-1, 7, 6}));
  EXPECT_EQ(bytes_in(slots[0]), 0);
  EXPECT_GT(bytes_in(slots[1]), 0);
}

TEST_F(SnapshotsTest, WaitWhereAllSlotsAreToBeSaved) {
  for (const int64_t step : {4, 5, 6}) snapshots.begin(step, buffers, trained, true);
  snapshots.finish();
  std::thread saver([&] { progress.saved(1); });
  snapshots.begin(7, buffers, trained);
  snapshots.finish();
  saver.join();
  EXPECT_EQ(progress.slots().steps, (SlotSteps{4, 7, 6}));
}

TEST_F(SnapshotsTest, HaveTheirMemoryFromTheBeginning) {
  constexpr int64_t kMore = 1 << 20;
  snapshots.begin(0, buffers, trained);
  snapshots.finish();
  snapshots.reserve(kMore);
  for (const size_t slot : {0, 1}) EXPECT_GE(bytes_in(slots[slot]), kMore);
  EXPECT_EQ(bytes_in(slots[2]), 0);
  trained.emplace_back("optimizer.weight.exp_avg", at::zeros({kMore / 8}, at::kDouble));
  const off_t before = bytes_in(slots[1]);
  snapshots.begin(1, buffers, trained);
  snapshots.finish();
  expect_state(1);
  EXPECT_LE(bytes_in(slots[1]), before + 4096);  // its header is longer
}

TEST_F(SnapshotsTest, ReplaceLongerOnes) {
  NamedTensors longer = trained;
  longer.emplace_back("optimizer.weight.exp_avg", at::arange(1 << 20));
  snapshots.begin(2, buffers, longer);
  snapshots.begin(3, buffers, trained);
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
  expect_state(0);
}

TEST_F(SnapshotsTest, AreTheSameWithAnyNumberOfThreads) {
  constexpr int64_t kBytes = Checksum::block_bytes;
  for (const int64_t more : {int64_t{0}, kBytes - 100, kBytes, 5 * kBytes + 7}) {
    NamedTensors state = trained;
    state.emplace_back("optimizer.a", at::arange(more).to(at::kByte));
    state.emplace_back("optimizer.b", at::arange(3 * more).to(at::kByte).view({3, more}).t());
    std::set<uint64_t> checksums;
    for (const int threads : {1, 2, 3, 8}) {
      Snapshots copies({slots[0].descriptor(), slots[1].descriptor(), slots[2].descriptor()},
                       progress, spare, threads);
      copies.forget();
      copies.begin(4, buffers, state);
      copies.finish();
      const size_t slot = slot_with(progress.slots().steps, 4).value();
      EXPECT_EQ(progress.checksum(slot), slots[slot].checksum());
      const SafetensorsFile file(slots[slot].file());
      for (const auto& [name, tensor] : state)
        EXPECT_TRUE(read_tensor(file, name).equal(tensor)) << name << ", " << threads;
      checksums.insert(progress.checksum(slot));
    }
    EXPECT_EQ(checksums.size(), 1U) << more;
  }
}

TEST_F(SnapshotsTest, AreCopiedWhileTimeIsLent) {
  snapshots.begin(4, buffers, trained);
  EXPECT_TRUE(spare.is_wanted());
  EXPECT_EQ(progress.slots().steps, (SlotSteps{-1, -1, -1}));
  {
    const SpareTime::Lent lent(spare);
    while (spare.is_wanted()) std::this_thread::yield();
  }
  EXPECT_EQ(progress.slots().steps, (SlotSteps{4, -1, -1}));
  expect_state(0);
}

TEST_F(SnapshotsTest, AreNotThereUntilTheyAreComplete) {
  snapshots.begin(2, buffers, trained);
  snapshots.finish();
  SlotSteps seen{};
  snapshots.while_copying = [&](int64_t step) {
    seen = progress.slots().steps;
    throw std::runtime_error("in step " + std::to_string(step));
  };
  snapshots.begin(4, buffers, trained);
  EXPECT_THROW(snapshots.finish(), std::runtime_error);
  EXPECT_EQ(seen, (SlotSteps{2, -1, -1}));
  EXPECT_EQ(progress.slots().steps, (SlotSteps{2, -1, -1}));
  snapshots.finish();  // it is told once
}

}  // namespace
}  // namespace penstock
