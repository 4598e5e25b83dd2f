// DualPipeV (DeepSeek-AI, DualPipe, 2025, in the cut-in-half form): a V like ZB-V whose steady
// state runs a forward of one stage beside a backward of the other, so that their transfers hide
// each other.
//
//   P = 2, M = 4, F, I and W equally long; small letters are the second stage, 3 - r on rank r
//
//   time ->
//   rank 0  F0 F1 F2 f0 i0 w0 f1 F3 b1 b1 .  f2 B0 B0 b2 b2 .  f3 B1 B1 b3 b3 I2 W2 I3 W3
//   rank 1  .  F0 f0 F1 f1 F2 b0 b0 f2 B0 B0 F3 b1 b1 f3 B1 B1 b2 b2 B2 B2 .  i3 I3 w3 W3
//
// A rank holds up to 2 P + 1 microbatches. At least 2 P microbatches.
#include <fmt/format.h>

#include "pipeline/program/schedule.hpp"
#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

namespace {

void write_start(RankWriter& write, int rank, int ranks) {
  const int a = rank, b = 2 * ranks - 1 - rank, to_turn = ranks - 1 - rank;
  // 1. down the V: aF aF …
  for (int i = 0; i < 2 * to_turn; ++i) write.forward(a);
  // 2. and up again: aF bF aF bF …
  for (int i = 0; i <= rank; ++i) write.forward(a), write.forward(b);
  // 3. backwards start at the top: bI bW bF …
  for (int i = 0; i < to_turn; ++i) {
    write.backward_input(b);
    write.oldest_backward_weight();
    write.forward(b);
  }
}

void write_steady(RankWriter& write, int rank, const ScheduleShape& shape) {
  const int a = rank, b = 2 * shape.ranks - 1 - rank, to_turn = shape.ranks - 1 - rank;
  // 4. [aF bB] [bF aB] …; the tip of the V has nothing to overlap at first
  for (int i = 0; i < shape.microbatches - 2 * shape.ranks + rank + 1; ++i) {
    if (i == 0 && to_turn == 0) {
      write.forward(a), write.backward(b);
    } else {
      write.overlap(a, b);
    }
    write.overlap(b, a);
  }
  // 5. no forwards of a are left: bB [bF aB] …
  for (int i = 0; i < to_turn; ++i) write.backward(b), write.overlap(b, a);
}

void write_end(RankWriter& write, int rank, int ranks) {
  const int a = rank, b = 2 * ranks - 1 - rank;
  // 6. bB aB …; from the middle on I instead of B, whose W fill the gaps that follow
  for (int i = 0; i < 2 * (rank + 1); ++i) {
    const int stage = i % 2 == 0 ? b : a;
    i <= rank ? write.backward(stage) : write.backward_input(stage);
  }
  // 7. W aI …
  for (int i = 0; i < ranks - 1 - rank; ++i) {
    write.oldest_backward_weight();
    write.backward_input(a);
  }
  // 8. the rest: W W …
  for (int i = 0; i <= rank; ++i) write.oldest_backward_weight();
}

void write_dualpipev(const ScheduleShape& shape, int rank, RankWriter& write) {
  write_start(write, rank, shape.ranks);
  write_steady(write, rank, shape);
  write_end(write, rank, shape.ranks);
}

std::optional<double> idle_dualpipev_s(const ScheduleShape& shape, const StageTimes& times) {
  if (!times.equal()) return std::nullopt;
  return 2 * (shape.ranks - 1) * times.forward_s;
}

std::optional<Schedule::Refusal> refuse_fewer_than_two_a_rank(const ScheduleShape& shape) {
  if (shape.microbatches >= 2 * shape.ranks) return std::nullopt;
  return Schedule::Refusal{
      fmt::format("{} microbatches are too few for {} ranks", shape.microbatches, shape.ranks),
      fmt::format("It needs two for each rank: at least {}.", 2 * shape.ranks)};
}

}  // namespace

constinit const Schedule dualpipev = {
    .name = "dualpipev",
    .description = "the same V, each forward beside a backward, transfers overlapped",
    .placement = StagePlacement::v,
    .stages_per_rank = 2,
    .split_backward = true,
    .write = write_dualpipev,
    .held = [](const ScheduleShape& shape, int) { return 2 * shape.ranks + 1; },
    .idle_s = idle_dualpipev_s,
    .microbatches = refuse_fewer_than_two_a_rank,
    .tools = {.torch = "DualPipeV"}};

}  // namespace penstock
