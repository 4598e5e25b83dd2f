#include "backend/communication/rendezvous.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>

namespace penstock {

namespace {

constexpr int kRoundTrips = 8;

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string clock_key(int rank, int trip, const char* what) {
  return fmt::format("clock/{}/{}/{}", rank, trip, what);
}

/// Runs on rank 0: answers the others one after the other.
void answer_clocks(const Seat& seat) {
  for (int rank = 1; rank < seat.size; ++rank) {
    for (int trip = 0; trip < kRoundTrips; ++trip) {
      seat.store.get(clock_key(rank, trip, "asked"));
      seat.store.set(clock_key(rank, trip, "answer"), fmt::format("{:.17g}", steady_s()));
    }
  }
}

}  // namespace

double clock_offset_s(const Seat& seat) {
  if (seat.rank == 0) {
    answer_clocks(seat);
    return 0;
  }
  double shortest = std::numeric_limits<double>::infinity(), offset = 0;
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    const double asked = steady_s();
    seat.store.set(clock_key(seat.rank, trip, "asked"), "?");
    const double zero = std::stod(seat.store.get(clock_key(seat.rank, trip, "answer")));
    const double answered = steady_s();
    if (answered - asked >= shortest) continue;
    shortest = answered - asked;
    offset = zero - (asked + answered) / 2;
  }
  // Rank 0 answered at an unknown point between the question and the answer.
  return std::abs(offset) <= shortest / 2 ? 0 : offset;
}

std::vector<std::string> gather(const Seat& seat, const std::string& key,
                                const std::string& value) {
  seat.store.set(fmt::format("gather/{}/{}", key, seat.rank), value);
  std::vector<std::string> values;
  for (int rank = 0; seat.rank == 0 && rank < seat.size; ++rank) {
    values.push_back(seat.store.get(fmt::format("gather/{}/{}", key, rank)));
  }
  return values;
}

}  // namespace penstock
