// Events reach the process that started the worker whole, whatever libraries write.
#include "backend/worker/events.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace penstock {
namespace {

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> buffer;
  for (ssize_t got; (got = read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(got));
  close(descriptor);
  return text;
}

TEST(Events, ComeAloneOnWhatWasStandardOutput) {
  std::array<int, 2> output, errors;
  ASSERT_EQ(pipe(output.data()), 0);
  ASSERT_EQ(pipe(errors.data()), 0);
  const pid_t worker = fork();
  if (worker == 0) {
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    for (const int descriptor : {output[0], output[1], errors[0], errors[1]}) close(descriptor);
    keep_output_for_events();
    std::printf("half a line of a library, ");
    std::fflush(stdout);
    emit({{"event", "ready"}});
    std::printf("and the rest\n");
    std::fflush(stdout);
    _exit(0);
  }
  close(output[1]);
  close(errors[1]);
  EXPECT_EQ(read_all(output[0]), "{\"event\":\"ready\"}\n");
  EXPECT_EQ(read_all(errors[0]), "half a line of a library, and the rest\n");
  int status = 0;
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock
