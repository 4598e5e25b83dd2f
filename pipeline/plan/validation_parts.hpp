// A validation set in microbatches: the plan's as far as they are full, and a smaller one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"

namespace penstock {

/// Samples [first, first + samples), whole microbatches of one size.
struct ValidationPart {
  int64_t first = 0, samples = 0, microbatch = 1;
  bool operator==(const ValidationPart&) const = default;
};

/// All of `samples`, each once. Throws InputError, for `place`, where samples are left that the
/// model does not take as a smaller batch.
std::vector<ValidationPart> validation_parts(const std::string& place, const Plan& plan,
                                             const Graph& model, int64_t samples);

/// The plan with microbatches of this size, as many as it has.
Plan with_microbatch(Plan plan, int64_t microbatch);

}  // namespace penstock
