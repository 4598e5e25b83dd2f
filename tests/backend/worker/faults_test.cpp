// Faults happen where their file says, each once, to their rank alone.
#include "backend/worker/faults.hpp"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "tests/backend/support.hpp"

namespace penstock {
namespace {

class FaultsTest : public ::testing::Test {
 protected:
  ~FaultsTest() override { unsetenv("PENSTOCK_FAULTS"); }
  void list(const std::string& lines) {
    setenv("PENSTOCK_FAULTS", folder_.write("faults", lines).c_str(), 1);
  }
  std::string listed() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "faults").rdbuf();
    return text.str();
  }
  /// The signal that ends or stops a child which does that; 0: it ends by itself.
  template <typename Action>
  static int signal_of(const Action& action) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(1);  // ends what would never end
      action();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, WUNTRACED);
    if (!WIFSTOPPED(status)) return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int signal = WSTOPSIG(status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return signal;
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(FaultsTest, AreNoneWithoutAFile) {
  Faults faults(0);
  EXPECT_NO_THROW(faults.at(0, 0));
}

TEST_F(FaultsTest, HappenOnceAtTheirPlaceAndAreNoted) {
  list("# a remark\n0 3 2 throw\n1 3 2 throw\n0 4 end throw\n0 5 copy throw\n");
  Faults faults(0);
  EXPECT_NO_THROW(faults.at(2, 1));
  EXPECT_NO_THROW(faults.at(1, 2));
  EXPECT_THROW(faults.at(2, 2), std::runtime_error);
  EXPECT_NO_THROW(faults.at(2, 2));
  EXPECT_THROW(faults.at(3, Faults::end), std::runtime_error);
  EXPECT_EQ(listed(), "# a remark\n# 3 2 throw\n1 3 2 throw\n# 4 end throw\n0 5 copy throw\n");
  Faults again(0);  // of the process that replaces it
  EXPECT_NO_THROW(again.at(2, 2));
  EXPECT_THROW(again.at(4, Faults::copy), std::runtime_error);
}

TEST_F(FaultsTest, KillStopAndSpin) {
  list("0 1 0 kill\n0 1 1 stop\n0 1 2 spin\n");
  const auto at = [](int position) { return signal_of([&] { Faults(0).at(0, position); }); };
  EXPECT_EQ(at(0), SIGKILL);
  EXPECT_EQ(at(1), SIGSTOP);
  EXPECT_EQ(at(2), SIGALRM);
  EXPECT_EQ(at(3), 0);
}

TEST_F(FaultsTest, InAnActionComeAtItsFirstOperatorOrWaitOrAtItsEnd) {
  const auto in_action = [&](const auto& action) {
    list("0 1 4.5 kill\n");
    return signal_of([&] {
      Faults faults(0);
      faults.at(0, 4);
      action(faults);
    });
  };
  EXPECT_EQ(in_action([](Faults&) { at::ones({2}); }), SIGKILL);
  EXPECT_EQ(in_action([](Faults&) { Faults::in_wait(); }), SIGKILL);
  EXPECT_EQ(in_action([](Faults& faults) { faults.at(0, 5); }), SIGKILL);
  EXPECT_EQ(in_action([](Faults&) {}), 0);
}

TEST_F(FaultsTest, ThatCannotBeReadAreNamed) {
  for (const std::string line : {"0 1 2", "0 1 2 burn", "0 1 x kill", "0 1 -1 kill", "0 1 .5 kill",
                                 "0 1 end.5 kill", "0 1 2.5 throw", "one 1 2 kill"}) {
    list("\n" + line + "\n");
    EXPECT_THAT(test::message_of<InputError>([] { Faults(0); }),
                ::testing::HasSubstr(":2: is no fault: " + line));
  }
}

}  // namespace
}  // namespace penstock
