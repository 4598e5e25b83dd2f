// The timeline as text: a row per rank, a column per slice of time.
#pragma once

#include <string>

#include "pipeline/program/timeline.hpp"

namespace penstock {

struct DrawOptions {
  int width = 100;      // columns for the timeline
  bool colour = false;  // ANSI colours: F blue, B and I orange, W green, idle grey
};

/// A grid that shows F, B, I, W with their microbatch number where it fits, `.` where a rank idles,
/// a time axis below. "" for an empty timeline.
std::string draw(const Timeline& timeline, int ranks, const DrawOptions& options = {});

}  // namespace penstock
