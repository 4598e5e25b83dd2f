// How the ranks of a run meet: they check that they run the same thing, set their clocks to rank
// 0's, and report to it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/shared_store.hpp"

namespace penstock {

/// A rank's place in a run.
struct Seat {
  SharedStore& store;
  int rank = 0, size = 1;
};

/// Every rank states the same facts (`plan sha256` and so on). Throws InputError, on rank 0 and on
/// the rank that differs, naming the fact and both values.
void shake_hands(const Seat& seat, const std::map<std::string, std::string>& facts);

/// Seconds to add to this rank's steady clock for rank 0's: the shortest of several round trips
/// through the store. 0 where the clocks agree as far as that can tell.
double clock_offset_s(const Seat& seat);

/// What every rank says, on rank 0; nothing on the others. `key` is used once in a run.
std::vector<std::string> gather(const Seat& seat, const std::string& key, const std::string& value);

}  // namespace penstock
