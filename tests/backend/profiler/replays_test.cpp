// The profiler's measurements of a model that is captured and replayed, on the CPU as a device that
// captures graphs.
#include "backend/profiler/replays.hpp"

#include <gmock/gmock.h>

#include "backend/profiler/profiler.hpp"
#include "pipeline/job/parameters.hpp"
#include "tests/backend/executor/capturing_device.hpp"
#include "tests/backend/support.hpp"
#include "tests/models/models.hpp"

namespace penstock::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class ReplaysTest : public ::testing::Test {
 protected:
  std::string write_job(const std::string& model, int batch) {
    return folder_.write(
        "job.yaml",
        "penstock: job\nmodel: " + model +
            "\nloss: cross_entropy\noptimizer: {kind: sgd, learning_rate: 0.1}\nglobal_batch: " +
            std::to_string(batch) + "\n");
  }

  /// Measures a subject that has gradients, as in the profiler.
  Replays measure(const std::string& model, test::CaptureOptions options = {}) {
    const auto device = test::make_capturing_device(std::move(options));
    const Job job = read_job(write_job(model, 16));
    const Graph graph = read_pt2(model);
    Subject subject(job, graph, *device);
    subject.whole.run(subject.batches.read(0, 1), subject.context(1, 0), false);
    return measure_replays(subject, 1);
  }

  Profile profile(const std::string& model, int batch, test::CaptureOptions options = {},
                  Effort effort = {}) {
    const auto device = test::make_capturing_device(std::move(options));
    const auto communicators = make_in_process(1);
    const std::string partial = folder_ / "profile.json";
    const Request request{.job = write_job(model, batch),
                          .partial = partial,
                          .effort = effort,
                          .device = device.get()};
    run(request, *communicators[0], [&](const Json& event) {
      if (event.at("event") == "warning")
        warnings_ += event.at("message").get<std::string>() + "\n";
    });
    return read_profile(partial);
  }

  static std::vector<int64_t> sizes_of(const std::vector<ReplayCosts>& replays) {
    std::vector<int64_t> sizes;
    for (const ReplayCosts& replay : replays) sizes.push_back(replay.microbatch);
    return sizes;
  }

  test::TemporaryFolder folder_;
  std::string warnings_;
};

TEST_F(ReplaysTest, AreTimedForEveryAction) {
  for (const char* name : {"pippy", "gpt2", "everything", "bert", "resnet"}) {
    PENSTOCK_MODEL(model, name);
    SCOPED_TRACE(name);
    const Replays replays = measure(model);
    ASSERT_TRUE(replays.times) << replays.why_not;
    for (const auto action : {&ActionTimes::forward, &ActionTimes::backward,
                              &ActionTimes::backward_input, &ActionTimes::backward_weight}) {
      const Measured& measured = *replays.times.*action;
      EXPECT_EQ(measured.repetitions, action == &ActionTimes::forward ? 4 : 2);
      EXPECT_GT(measured.mean_s, 0);
      EXPECT_GT(measured.host_s, 0);
    }
  }
}

TEST_F(ReplaysTest, LeaveTheParametersAndFutureGradientsAsTheyAre) {
  PENSTOCK_MODEL(model, "gpt2");
  const Job job = read_job(write_job(model, 16));
  const Graph graph = read_pt2(model);
  const auto device = test::make_capturing_device();
  Subject subject(job, graph, *device);
  const auto step = [&] {
    subject.store.clear_gradients();
    subject.whole.run(subject.batches.read(0, 1), subject.context(1, 0), false);
    std::map<int, at::Tensor> both;
    for (const int index : subject.parameters()) {
      both[index] = subject.store.tensor(index).clone();
      both[-1 - index] = subject.store.gradient(index).clone();
    }
    return both;
  };
  const auto before = step();
  ASSERT_TRUE(measure_replays(subject, 1).times);
  const auto after = step();
  for (const auto& [index, tensor] : before) EXPECT_TRUE(tensor.equal(after.at(index))) << index;
}

TEST_F(ReplaysTest, SayWhyThereAreNone) {
  PENSTOCK_MODEL(dropout, "transformer-text-dropout");
  EXPECT_THAT(measure(dropout).why_not, HasSubstr("random numbers"));
  PENSTOCK_MODEL(model, "pippy");
  EXPECT_THAT(measure(model, {.max_captures = 3}).why_not, HasSubstr("records no more"));
  const Job job = read_job(write_job(model, 16));
  const Graph graph = read_pt2(model);
  Subject subject(job, graph);
  EXPECT_EQ(measure_replays(subject, 1).why_not, "this device records nothing");
}

TEST_F(ReplaysTest, AreInTheProfileOfADeviceThatWaitsForItsHost) {
  PENSTOCK_MODEL(model, "pippy");
  const Profile made = profile(model, 16);
  EXPECT_THAT(sizes_of(made.replays), ElementsAre(1, 2, 4, 8, 16));
  for (const ReplayCosts& replay : made.replays) EXPECT_GT(replay.times.backward.mean_s, 0);
  EXPECT_THAT(warnings_, Not(HasSubstr("CUDA graphs")));
}

TEST_F(ReplaysTest, AreLeftAwayWhereTheyWouldTakeLongerThanAStepAndThanASizeHas) {
  PENSTOCK_MODEL(model, "pippy");
  const Effort hurried{.size_seconds = 0};
  EXPECT_THAT(sizes_of(profile(model, 2 * kReplayPasses, {}, hurried).replays), ElementsAre(1, 2));
  EXPECT_THAT(profile(model, kReplayPasses - 2, {}, hurried).replays, IsEmpty());
  EXPECT_THAT(warnings_, Not(HasSubstr("CUDA graphs")));
}

TEST_F(ReplaysTest, ThatFailAreAWarning) {
  PENSTOCK_MODEL(model, "pippy");
  const Profile made = profile(model, 16, {.max_captures = 0});
  EXPECT_THAT(made.replays, IsEmpty());
  EXPECT_EQ(made.microbatches.size(), 5u);
  EXPECT_THAT(warnings_, HasSubstr("without CUDA graphs, which could not be measured: this device "
                                   "records no more"));
}

TEST_F(ReplaysTest, ThatFailAtALargerSizeAreThoseOfTheSmallerOnes) {
  PENSTOCK_MODEL(model, "pippy");
  constexpr int kCaptures = 6;  // F and B, then F, I and W, and the end
  const Profile made = profile(model, 16, {.max_captures = 2 * kCaptures});
  EXPECT_THAT(sizes_of(made.replays), ElementsAre(1, 2));
  EXPECT_THAT(warnings_, HasSubstr("CUDA graphs could not be measured at microbatch 4 and are "
                                   "predicted by those of 2: this device records no more"));
}

}  // namespace
}  // namespace penstock::profiler
