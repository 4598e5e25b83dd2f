// Text and token files as windows of token ids.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/job/dataset.hpp"

namespace penstock {

/// Throws InputError unless the files are all text or all `.bin`, hold at least one window and the
/// token after it, and the model has one input, of integers.
std::unique_ptr<Dataset> open_text(const Job& job, const std::vector<ExpectedSample>& expected);

}  // namespace penstock
