// The place of a process in its run, from the variables that each launcher was seen to set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.hpp"
#include "launch/launcher.hpp"
#include "launch/node_list.hpp"
#include "launch/process_tree.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const EnvironmentVariables kTorchrun{{"RANK", "3"},
                                     {"WORLD_SIZE", "4"},
                                     {"LOCAL_RANK", "1"},
                                     {"LOCAL_WORLD_SIZE", "2"},
                                     {"GROUP_RANK", "1"},
                                     {"MASTER_ADDR", "node7"},
                                     {"MASTER_PORT", "29500"},
                                     {"TORCHELASTIC_RUN_ID", "run"},
                                     {"TORCHELASTIC_RESTART_COUNT", "2"}};
const EnvironmentVariables kSrun{{"SLURM_JOB_ID", "77"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", "3"},
                                 {"SLURM_STEP_NUM_TASKS", "5"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_NODEID", "1"},
                                 {"SLURM_NTASKS", "5"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                                 {"SLURM_STEP_NODELIST", "n[01-02],gpu7"}};
const EnvironmentVariables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "1670643713"}};
const EnvironmentVariables kMpiexec{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

EnvironmentVariables with(EnvironmentVariables variables, const EnvironmentVariables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

EnvironmentVariables without(EnvironmentVariables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

std::string refusal(const EnvironmentVariables& variables) {
  try {
    find_launcher(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

/// Rank and ranks of all, then on its machine.
std::vector<int> seat_of(const Launcher& found) {
  return {found.rank, found.world_size, found.local_rank, found.local_size};
}

TEST(Launcher, WithoutOneThisProcessStartsAllRanks) {
  EXPECT_FALSE(find_launcher({}));
  EXPECT_FALSE(find_launcher({{"MASTER_ADDR", "node7"}, {"HOME", "/root"}}));
}

TEST(Launcher, Torchrun) {
  const auto found = find_launcher(kTorchrun).value();
  EXPECT_EQ(found.name, "torchrun");
  EXPECT_THAT(seat_of(found), ElementsAre(3, 4, 1, 2));
  EXPECT_EQ(found.host, "node7");
  EXPECT_EQ(found.port, 29500);
  EXPECT_EQ(found.prefix, "run/2/");
  EXPECT_FALSE(found.hosts_store);
  EXPECT_TRUE(
      find_launcher(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->hosts_store);
}

TEST(Launcher, Srun) {
  const auto found = find_launcher(kSrun).value();
  EXPECT_EQ(found.name, "srun");
  EXPECT_THAT(seat_of(found), ElementsAre(3, 5, 1, 2));
  EXPECT_EQ(found.node, 1);
  EXPECT_EQ(found.host, "n01");
  EXPECT_EQ(found.port, port_from("srun/77.0"));
  const auto on_last_node =
      find_launcher(with(kSrun, {{"SLURM_NODEID", "2"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_EQ(on_last_node->local_size, 1);
}

TEST(Launcher, SrunOnOneNodeUsesTheLoopback) {
  EXPECT_EQ(find_launcher(with(kSrun, {{"SLURM_NODEID", "0"},
                                       {"SLURM_STEP_TASKS_PER_NODE", "5"},
                                       {"SLURM_LOCALID", "3"}}))
                ->host,
            "127.0.0.1");
}

TEST(Launcher, StepsOfOneJobHavePortsOfTheirOwn) {
  EXPECT_NE(find_launcher(kSrun)->port, find_launcher(with(kSrun, {{"SLURM_STEP_ID", "1"}}))->port);
  for (int job = 0; job < 1000; ++job) {
    EXPECT_GE(port_from(std::to_string(job)), 10000);
    EXPECT_LT(port_from(std::to_string(job)), 30000);  // Linux gives out 32768 and above
  }
}

TEST(Launcher, ABatchScriptAndAnInteractiveShellOfSlurmAreNoRanks) {
  const EnvironmentVariables batch = without(kSrun, "SLURM_STEP_ID");  // it has SLURM_PROCID=0
  EXPECT_FALSE(find_launcher(batch));
  EXPECT_FALSE(find_launcher(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})));
}

TEST(Launcher, Mpirun) {
  const auto found = find_launcher(kMpirun).value();
  EXPECT_EQ(found.name, "mpirun");
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_EQ(found.host, "127.0.0.1");
  EXPECT_EQ(found.port, port_from("mpirun/1670643713"));
}

TEST(Launcher, MpirunOnSeveralNodesNeedsAnAddress) {
  const auto two = with(kMpirun, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(refusal(two), AllOf(HasSubstr("MASTER_ADDR is not set"), HasSubstr("-x")));
  EXPECT_EQ(find_launcher(with(two, {{"MASTER_ADDR", "n1"}}))->host, "n1");
}

TEST(Launcher, MpiexecOfMpichAndIntel) {
  const auto found = find_launcher(kMpiexec).value();
  EXPECT_EQ(found.name, "mpiexec");
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.local_rank, 1);
}

TEST(Launcher, RunsOfMpiexecOnOneMachineAreToldApartByWhatStartedThem) {
  const auto one = find_launcher(with(kMpiexec, {{"PMI_PROXY", "812"}})).value();
  const auto other = find_launcher(with(kMpiexec, {{"PMI_PROXY", "813"}})).value();
  EXPECT_EQ(one.prefix, "mpiexec/812/");
  EXPECT_NE(one.port, other.port);
  // On two machines there is another for each, and the ranks have to meet.
  const EnvironmentVariables two =
      with(kMpiexec, {{"PMI_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"PMI_PROXY", "812"}});
  EXPECT_EQ(find_launcher(two)->prefix, "mpiexec//");
}

TEST(ProcessTree, FindsTheNearestAboveWithThatName) {
  std::string name;
  std::ifstream("/proc/" + std::to_string(getppid()) + "/comm") >> name;
  EXPECT_EQ(process_above(name), getppid());
  EXPECT_FALSE(process_above("no process has this name"));
}

TEST(Launcher, TheInnermostOfTwoCounts) {
  EXPECT_EQ(find_launcher(with(kSrun, kTorchrun))->name, "torchrun");  // one torchrun per node
  EXPECT_EQ(find_launcher(with(kSrun, kMpirun))->name, "mpirun");      // its helpers by srun
  EXPECT_EQ(find_launcher(with(kSrun, {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}))->name, "srun");
}

TEST(Launcher, AGivenAddressAndPortCount) {
  const auto found = find_launcher(with(kSrun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}}));
  EXPECT_EQ(found->host, "a");
  EXPECT_EQ(found->port, 7);
}

TEST(Launcher, AHalfSetEnvironmentIsNamed) {
  for (const char* name : {"WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"}) {
    EXPECT_THAT(refusal(without(kTorchrun, name)),
                AllOf(HasSubstr("RANK=3"), HasSubstr(std::string(name) + " is not set")));
  }
  EXPECT_THAT(refusal({{"WORLD_SIZE", "4"}}), HasSubstr("WORLD_SIZE=4, but RANK is not set"));
  EXPECT_THAT(refusal(without(kSrun, "SLURM_PROCID")), HasSubstr("SLURM_PROCID is not set"));
  EXPECT_THAT(refusal(without(kMpirun, "OMPI_COMM_WORLD_SIZE")), HasSubstr("is not set"));
}

TEST(Launcher, AContradictionIsNamedWithBothValues) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})),
              AllOf(HasSubstr("RANK=4"), HasSubstr("WORLD_SIZE=4")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "2"}})), HasSubstr("LOCAL_RANK=2"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}})),
              AllOf(HasSubstr("LOCAL_WORLD_SIZE=5"), HasSubstr("WORLD_SIZE=4")));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "0"}})),
              HasSubstr("LOCAL_RANK=1 contradicts RANK=0, of 2 ranks on this node and 4 in all"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "0"}})),
              HasSubstr("LOCAL_RANK=0 contradicts RANK=3"));
  EXPECT_THAT(refusal(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}})),
              AllOf(HasSubstr("2(x3)"), HasSubstr("SLURM_STEP_NUM_TASKS=5")));
  EXPECT_THAT(refusal(with(kSrun, {{"WORLD_SIZE", "8"}})),
              AllOf(HasSubstr("WORLD_SIZE=8"), HasSubstr("SLURM_STEP_NUM_TASKS=5")));
  auto by_hand = without(kTorchrun, "TORCHELASTIC_RUN_ID");
  EXPECT_THAT(refusal(with(by_hand, kMpirun)),
              AllOf(HasSubstr("RANK=3"), HasSubstr("OMPI_COMM_WORLD_RANK=1")));
}

TEST(Launcher, ANumberThatIsNoneIsNamed) {
  for (const char* value : {"", "x", "1x", "-1", "99999999999"}) {
    EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", value}})), HasSubstr("LOCAL_RANK"));
  }
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("65536"));
}

TEST(NodeList, RangesKeepTheirZeros) {
  EXPECT_THAT(expand_hosts("node[01-03,7],login", ""),
              ElementsAre("node01", "node02", "node03", "node7", "login"));
  EXPECT_THAT(expand_hosts("n[8-11]", ""), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(expand_hosts("n[098-101]-ib", ""),
              ElementsAre("n098-ib", "n099-ib", "n100-ib", "n101-ib"));
  EXPECT_THAT(expand_hosts("r[1-2]n[0-1]", ""), ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
  EXPECT_THAT(expand_hosts("one", ""), ElementsAre("one"));
  EXPECT_THAT(expand_hosts("n[2147483646-2147483647]", ""),
              ElementsAre("n2147483646", "n2147483647"));
}

TEST(NodeList, CountsAreRepeated) {
  EXPECT_THAT(expand_counts("2(x3),1", ""), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_counts("4", ""), ElementsAre(4));
}

TEST(NodeList, WhatIsNotWellFormedIsRefused) {
  for (const char* bad : {"", ",", "n[1", "n]1[", "n[]", "n[2-1]", "n[a-b]", "n[0-99999999]",
                          "n[1-2]]", "a,,b", "n[0-999][0-999][0-999]"}) {
    EXPECT_THROW(expand_hosts(bad, "LIST"), InputError) << bad;
  }
  for (const char* bad : {"", "x", "2(3)", "2(x", "2(x)", "2(x3", "-1", "1(x99999999)"}) {
    EXPECT_THROW(expand_counts(bad, "LIST"), InputError) << bad;
  }
}

}  // namespace
}  // namespace penstock
