// Ctrl-C while a command can still give a result.
#pragma once

#include <csignal>

namespace penstock::cli {

/// While it lives the first SIGINT is only noted; a second one does as it would without. Where it
/// is ignored it stays so. One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  static bool asked();

 private:
  struct sigaction before_ {};
};

}  // namespace penstock::cli
