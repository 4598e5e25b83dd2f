#include "backend/worker/events.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/communication/communicator.hpp"
#include "backend/executor/step_metrics.hpp"
#include "backend/worker/request.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

namespace penstock {

namespace {

int output = STDOUT_FILENO;
std::mutex writing;  // any thread may

}  // namespace

void keep_output_for_events() {
  const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (own < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return;  // they share it
  output = own;
}

void emit(const nlohmann::json& event) {
  const std::string line =
      event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(writing);
  if (!write_all(output, line)) _exit(1);
}

namespace {

/// The message without the C++ stack trace that LibTorch adds.
std::string own_message(const std::exception& error) {
  std::string text = error.what();
  for (const char* stack : {"\nException raised from", "\nframe #0"}) {
    text = text.substr(0, text.find(stack));
  }
  return text;
}

}  // namespace

WorkerError describe_failure(const std::exception_ptr& exception, WorkerError where) {
  try {
    std::rethrow_exception(exception);
  } catch (const InputError& error) {
    where.kind = FailureKind::input;
    where.message = error.what();
  } catch (const LossNotFinite& error) {
    where.kind = FailureKind::final;
    where.message = own_message(error);
  } catch (const ScriptEnded& error) {
    where.kind = FailureKind::final;
    where.message = error.what();
  } catch (const PeerError& error) {
    where.kind = FailureKind::peer;
    where.lost = error.peer;
    where.message = own_message(error);
  } catch (const std::exception& error) {
    where.message = own_message(error);
  } catch (...) {
    where.message = "an exception of unknown type";
  }
  return where;
}

void fail(const std::exception_ptr& exception, const WorkerError& where) {
  fail(describe_failure(exception, where));
}

void fail(const WorkerError& error) {
  emit(to_json(error));
  _exit(error.kind == FailureKind::input ? 2 : 1);
}

}  // namespace penstock
