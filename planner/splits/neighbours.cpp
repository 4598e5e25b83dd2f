#include "planner/splits/neighbours.hpp"

#include <utility>

namespace penstock {

/// Move (distance, first cut, direction) has number 2 (place of (distance, first)) + direction; of
/// n cuts there are n, n - 1, … places for distances 1, 2, ….
Neighbours::Neighbours(std::vector<int> begins, int units)
    : begins_(std::move(begins)), units_(units), moves_(begins_.size() * (begins_.size() - 1)) {}

/// Empty where a stage would have no unit.
std::vector<int> Neighbours::shifted(size_t number) const {
  const int by = number % 2 == 0 ? 1 : -1;
  size_t place = number / 2, cuts = begins_.size() - 1, distance = 1;
  for (; place >= cuts; ++distance) place -= cuts--;
  std::vector<int> begins = begins_;
  for (size_t cut = place + 1; cut <= place + distance; ++cut) begins[cut] += by;
  const size_t last = place + distance;
  const int end = last + 1 < begins.size() ? begins[last + 1] : units_;
  const bool empty = begins[place + 1] <= begins[place] || begins[last] >= end;
  return empty ? std::vector<int>{} : begins;
}

std::optional<std::vector<int>> Neighbours::next() {
  while (tried_ < moves_) {
    ++tried_;
    last_ = shifted(at_);
    at_ = (at_ + 1) % moves_;
    if (!last_.empty()) return last_;
  }
  return std::nullopt;
}

void Neighbours::move() {
  begins_ = last_;
  tried_ = 0;
}

}  // namespace penstock
