#include "cli/interruption.hpp"

#include <atomic>

namespace penstock::cli {

namespace {

std::atomic<bool> interrupted = false;  // asked for on any thread
static_assert(decltype(interrupted)::is_always_lock_free);

void note(int) { interrupted = true; }

}  // namespace

Interruption::Interruption() {
  interrupted = false;
  sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

Interruption::~Interruption() { sigaction(SIGINT, &before_, nullptr); }

bool Interruption::asked() { return interrupted; }

}  // namespace penstock::cli
