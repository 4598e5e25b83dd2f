// penstock-worker: one rank of a run.
#pragma once

namespace penstock {

/// Reads the task from standard input, carries it out, writes events to standard output
/// (launch/worker_protocol.hpp), and ends the process with 0, 2 for a user's mistake, else 1.
[[noreturn]] void run_worker();

}  // namespace penstock
