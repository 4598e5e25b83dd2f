// How a step's samples divide into replicas, microbatches and samples of a microbatch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock {

struct BatchShape {
  int64_t global_batch = 1;
  int64_t data_parallel = 1, microbatches = 1, microbatch = 1;
};

/// Divisors of `number`, ascending.
std::vector<int64_t> divisors(int64_t number);

/// Throws InputError, place `place`, unless global_batch = data_parallel x microbatches x
/// microbatch; the message names the numbers near the given ones that make it so.
void check_batch(const BatchShape& shape, std::string_view place);

}  // namespace penstock
