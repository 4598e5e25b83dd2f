// Ctrl-C while a command can still give a result.
#pragma once

namespace penstock::cli {

/// While it lives the first SIGINT is only noted; a second one ends the process as usual. One at a
/// time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  static bool asked();
};

}  // namespace penstock::cli
