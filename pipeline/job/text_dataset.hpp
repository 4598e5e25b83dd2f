// Text and token files as windows of token ids.
//
// The bytes of a text are its token ids, and of a `.bin` its little-endian uint16 or uint32
// (`token_bytes`). The files follow each other; sample i is the window of `sequence` tokens from
// i x sequence on, its target the same shifted by one. What is left over at the end is not used.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/job/dataset.hpp"

namespace penstock {

/// Throws InputError unless the files hold at least one window and the token after it, and the
/// model has one input, of integers; also where they seem to hold wider tokens than the job says.
std::unique_ptr<Dataset> open_text(const Job& job, const std::vector<ExpectedSample>& expected);

}  // namespace penstock
