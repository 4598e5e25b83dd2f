#include "pipeline/program/schedules/zero_bubble.hpp"

#include "pipeline/program/schedules/writer.hpp"

namespace penstock {

void write_zero_bubble(const ScheduleShape& shape, int rank, int per_hop, RankWriter& write) {
  const int warm_up = per_hop * (shape.ranks - 1 - rank);
  // warm-up: F F F …
  for (int i = 0; i < warm_up; ++i) write.forward(rank);
  // F I F I …, then F I W F I W …, then I W I W …
  for (int i = 0; i < shape.microbatches; ++i) {
    write.forward(rank);
    write.backward_input(rank);
    if (warm_up + i >= per_hop * (shape.ranks - 1)) write.oldest_backward_weight();
  }
  // the rest: W W …
  for (int i = 0; i < shape.microbatches; ++i) write.oldest_backward_weight();
}

}  // namespace penstock
