// The worker's events: one JSON object a line on its original standard output, read by the process
// that started it.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>

#include "launch/worker_protocol.hpp"

namespace penstock {

/// Redirects standard output to standard error: what libraries write there (NCCL_DEBUG) is for
/// people and must not come between events.
void keep_output_for_events();

/// Writes the event at once, from any thread. Ends the process if the reader is gone.
void emit(const nlohmann::json& event);

/// The error event of an exception; `where`: rank, step and action.
WorkerError describe_failure(const std::exception_ptr& exception, WorkerError where);

/// Reports the failure and ends the process without unwinding: 2 for a user's mistake, else 1.
/// Destructors would wait for transfers in flight.
[[noreturn]] void fail(const std::exception_ptr& exception, const WorkerError& where);
[[noreturn]] void fail(const WorkerError& error);

}  // namespace penstock
