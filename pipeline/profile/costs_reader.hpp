// Reads the costs of microbatch sizes from a profile's JSON. Throws InputError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// A duration, rate, share or amount: none is negative.
double read_amount(const JsonValue& value, const std::string& key);
/// An amount for a host that runs ahead of its device; profiles of CPUs have none.
double read_host_amount(const JsonValue& value, const std::string& key);
int64_t read_bytes(const JsonValue& value, const std::string& key);

ActionTimes read_times(const JsonValue& value);
/// `microbatches` of a profile, or of one of its groups: these may leave out what `repeats`. An
/// entry with `same_as` has the costs of that one of the entries before it; operators and units
/// without names have those in the same place at the first size.
std::vector<MicrobatchCosts> read_microbatches(const JsonValue& of, bool repeats);

}  // namespace penstock
