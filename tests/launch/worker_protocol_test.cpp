// Messages between penstock and its workers survive the way there and back.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/execute_task.hpp"
#include "launch/progress.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {
namespace {

TEST(WorkerProtocol, ATaskArrivesAsItWasSent) {
  WorkerTask task;
  task.command = "profile";
  task.rank = 3;
  task.world_size = 4;
  task.process = 2;
  task.processes = 5;
  task.local_rank = 1;
  task.local_size = 2;
  task.store_host = "node7";
  task.store_prefix = "run/1/";
  task.store_port = 29500;
  task.store_serve = true;
  task.fleet_port = 29501;
  task.fleet_token = "f1ee7";
  task.one_machine = false;
  task.node = 5;
  task.launched = true;
  task.start_timeout_s = 7;
  task.facts = {{"seed", "1"}};
  task.progress = 9;
  task.slots = {10, 11};
  task.copied = true;
  task.next_step = 4;
  task.arguments = {{"steps", 7}};
  const auto sent = to_json(task);
  EXPECT_EQ(to_json(parse_task(nlohmann::json::parse(sent.dump()))), sent);
  EXPECT_EQ(parse_task(sent).store_host, "node7");
}

TEST(WorkerProtocol, ATaskWithoutAMemberIsRefused) {
  auto sent = to_json(WorkerTask{});
  sent.erase("rank");
  EXPECT_THROW(parse_task(sent), nlohmann::json::exception);
}

TEST(WorkerProtocol, AnExecuteTaskArrivesAsItWasSent) {
  ExecuteTask task;
  task.plan = "/p.yaml";
  task.plan_sha256 = "ab";
  task.program = "0F0,0B0\n";
  task.first_step = 5;
  task.steps = 9;
  task.forward_only = task.metrics = task.timeline = true;
  task.output = "o";
  task.dump_gradients = "g";
  task.save = "s";
  task.save_every = 2;
  task.keep = 4;
  task.resume = "r";
  task.weights = "w";
  task.cuda_graphs = CudaGraphs::always;
  task.batch = {.descriptor = 3,
                .bytes = 128,
                .first = 8,
                .samples = 4,
                .tensors = {{"x", "int64", {4, 2}, 64}},
                .complete = false};
  task.results = 5;
  const auto sent = to_json(task);
  EXPECT_EQ(to_json(parse_execute_task(nlohmann::json::parse(sent.dump()))), sent);
  EXPECT_EQ(sent.size(), 18u);
}

TEST(WorkerProtocol, AnErrorNamesRankStepActionAndKind) {
  const WorkerError error{FailureKind::peer, 2, 1, 17, "1F3", "lost rank 1"};
  const auto event = to_json(error);
  EXPECT_EQ(event.at("event"), "error");
  EXPECT_EQ(event.at("kind"), "peer");
  const WorkerError read = parse_error(nlohmann::json::parse(event.dump()));
  EXPECT_EQ(read.kind, FailureKind::peer);
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.lost, 1);
  EXPECT_EQ(read.step, 17);
  EXPECT_EQ(read.action, "1F3");
  EXPECT_EQ(read.message, "lost rank 1");
}

TEST(WorkerProtocol, TimesArriveBitForBit) {
  const Timeline timeline{{1, parse_action("2SEND_F3:5", ""), 0.1, 1.0 / 3, 1 << 20},
                          {0, parse_action("0OPT", ""), 123456.7890123456, 123456.8, 0}};
  const Timeline read = parse_timeline(nlohmann::json::parse(to_json(timeline).dump()));
  ASSERT_EQ(read.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].rank, timeline[i].rank);
    EXPECT_EQ(read[i].action, timeline[i].action);
    EXPECT_EQ(read[i].start_s, timeline[i].start_s);
    EXPECT_EQ(read[i].end_s, timeline[i].end_s);
    EXPECT_EQ(read[i].bytes, timeline[i].bytes);
  }
}

TEST(PlaceInRun, StepsAreCountedFromOneAsInTheLinesOfProgress) {
  EXPECT_EQ(place_in_run(-1, ""), "before its first step");
  EXPECT_EQ(place_in_run(0, ""), "in step 1");
  EXPECT_EQ(place_in_run(3, "1F0"), "in step 4 at 1F0");
}

TEST(SharedProgress, HoldsWhereAKilledProcessWas) {
  const SharedProgress progress;
  EXPECT_EQ(progress.get().step, -1);
  EXPECT_EQ(progress.get().position, -1);
  const pid_t child = fork();
  if (child == 0) {
    SharedProgress own(progress.descriptor());
    own.set({(int64_t{1} << 39) + 5, 1'000'000});
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(progress.get().step, (int64_t{1} << 39) + 5);
  EXPECT_EQ(progress.get().position, 1'000'000);
}

TEST(SharedProgress, AsksTheOtherProcessToStop) {
  SharedProgress progress;
  const SharedProgress own(fcntl(progress.descriptor(), F_DUPFD_CLOEXEC, 0));
  EXPECT_FALSE(own.asked_to_stop());
  progress.ask_to_stop();
  EXPECT_TRUE(own.asked_to_stop());
}

TEST(SharedProgress, TellsWhichSnapshotsAreCompleteAndWhichAreToBeSaved) {
  SharedProgress progress;
  EXPECT_EQ(progress.slots().steps, (SlotSteps{-1, -1, -1}));
  SharedProgress own(fcntl(progress.descriptor(), F_DUPFD_CLOEXEC, 0));
  own.set_snapshot(1, 7, 23, true);
  EXPECT_EQ(progress.slots().steps, (SlotSteps{-1, 7, -1}));
  EXPECT_EQ(progress.checksum(1), 23U);
  EXPECT_TRUE(progress.slots().unsaved[1]);
  progress.saved(1);
  EXPECT_FALSE(own.slots().unsaved[1]);
  EXPECT_EQ(own.slots().steps[1], 7);
}

TEST(SharedProgress, ForgetsLaterSnapshotsAndThatTheyWereToBeSaved) {
  SharedProgress progress;
  progress.set_snapshot(0, 7, 0, true);
  progress.set_snapshot(1, 8, 0, true);
  progress.forget_snapshots_after(7);
  EXPECT_EQ(progress.slots().steps, (SlotSteps{7, -1, -1}));
  EXPECT_EQ(progress.slots().unsaved, (std::array{true, false, false}));
}

}  // namespace
}  // namespace penstock
