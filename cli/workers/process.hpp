// Starting a process that reads and writes pipes and cannot outlive this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace penstock::cli {

struct ChildProcess {
  pid_t process = -1;
  int input = -1;   // write here: its standard input
  int output = -1;  // read here: its standard output
};

/// Starts `program` without arguments. It gets SIGKILL when this process ends, ignores SIGINT,
/// SIGTERM and SIGUSR1 (terminals and launchers send them to both), and inherits the descriptors
/// `inherited`. Throws std::system_error.
ChildProcess start_child(const std::string& program, const std::vector<int>& inherited);

/// The folder of this program's own file.
std::string program_folder();

/// `killed by signal 9 (SIGKILL)`, `exit status 3`.
std::string describe_wait_status(int status);

}  // namespace penstock::cli
