#include "launch/supervision/saver.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

namespace penstock {

Saver::Saver() : done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (done_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Saver::~Saver() {
  stop_.request_stop();
  if (writing_.valid()) writing_.wait();
  close(done_);
}

void Saver::begin(int64_t step, Write write) {
  step_ = step;
  writing_ = std::async(std::launch::async, [this, write = std::move(write)] {
    std::exception_ptr problem;
    try {
      write(stop_.get_token());
    } catch (...) {
      problem = std::current_exception();
    }
    eventfd_write(done_, 1);
    if (problem) std::rethrow_exception(problem);
  });
}

std::string Saver::finish() {
  std::string problem;
  try {
    writing_.get();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  eventfd_t none = 0;
  eventfd_read(done_, &none);
  step_.reset();
  return problem;
}

}  // namespace penstock
