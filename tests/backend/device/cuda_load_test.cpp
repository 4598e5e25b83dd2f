// The GPU of each rank, the environment that is set, and the refusals.
#include "backend/device/cuda_load.hpp"

#include <gmock/gmock.h>

#include <set>

#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

WorkerTask task_of(int local_rank, int local_size, int ranks_per_device) {
  WorkerTask task;
  task.device = "cuda";
  task.rank = task.local_rank = local_rank;
  task.world_size = task.local_size = local_size;
  task.ranks_per_device = ranks_per_device;
  return task;
}

CudaMachine machine_of(int devices) {
  CudaMachine machine;
  machine.driver = true;
  machine.driver_version = 13010;
  machine.runtime_version = 13000;
  machine.devices = devices;
  return machine;
}

std::string refusal(const CudaMachine& machine, const WorkerTask& task) {
  try {
    check_cuda(machine, task);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaLoad, LocalRanksTakeTheGpusInOrder) {
  std::vector<int> alone, shared;
  for (int rank = 0; rank < 5; ++rank) {
    alone.push_back(cuda_device_of(machine_of(5), task_of(rank, 5, 1)));
    shared.push_back(cuda_device_of(machine_of(3), task_of(rank, 5, 2)));
  }
  EXPECT_THAT(alone, ::testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(shared, ::testing::ElementsAre(0, 0, 1, 1, 2));
}

TEST(CudaLoad, ALauncherMayGiveEachRankTheOnlyGpuThatItSees) {
  CudaMachine machine = machine_of(1);
  machine.chosen = true;
  WorkerTask task = task_of(3, 4, 1);
  EXPECT_THAT(refusal(machine, task), HasSubstr("need 4")) << "nobody gave it one";
  task.launched = true;
  EXPECT_EQ(refusal(machine, task), "");
  EXPECT_EQ(cuda_device_of(machine, task), 0);
  machine.chosen = false;
  EXPECT_THAT(refusal(machine, task), HasSubstr("need 4")) << "all ranks see the same one";
}

TEST(CudaLoad, KernelsAreLoadedBeforeAReceiveSpins) {
  const auto variables = cuda_environment(task_of(0, 2, 1));
  EXPECT_EQ(variables.at("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_EQ(variables.at("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_FALSE(variables.contains("NCCL_HOSTID")) << "ranks on GPUs of their own share a machine";
}

TEST(CudaLoad, ARankByItselfLoadsKernelsWhenItNeedsThem) {
  WorkerTask task = task_of(0, 1, 1);
  EXPECT_EQ(cuda_environment(task).at("CUDA_MODULE_LOADING"), "LAZY");
  task.command = "profile";
  EXPECT_EQ(cuda_environment(task).at("CUDA_MODULE_LOADING"), "EAGER")
      << "what a profile leaves free is what ranks of pipelines take";
}

TEST(CudaLoad, RanksThatShareAGpuAreMachinesToNccl) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < 4; ++rank) {
    const auto variables = cuda_environment(task_of(rank, 4, 2));
    hosts.insert(variables.at("NCCL_HOSTID"));
    EXPECT_EQ(variables.at("NCCL_NET"), "Socket");
    EXPECT_EQ(variables.at("NCCL_SOCKET_IFNAME"), "lo");
    EXPECT_EQ(variables.at("NCCL_MNNVL_ENABLE"), "0");
  }
  EXPECT_EQ(hosts.size(), 4U);
  WorkerTask elsewhere = task_of(0, 2, 2);
  elsewhere.one_machine = false;
  EXPECT_FALSE(cuda_environment(elsewhere).contains("NCCL_SOCKET_IFNAME"));
}

TEST(CudaLoad, SaysWhatIsMissingAndWhatToDo) {
  const WorkerTask two = task_of(0, 2, 1);
  EXPECT_EQ(refusal(machine_of(2), two), "");
  CudaMachine machine = machine_of(2);
  machine.driver_version = 12080;
  EXPECT_THAT(refusal(machine, two),
              HasSubstr("CUDA 13.0, and this machine's driver runs CUDA 12.8"));
  machine = machine_of(0);
  machine.problem = "no CUDA-capable device is detected";
  EXPECT_THAT(refusal(machine, two),
              ::testing::AllOf(HasSubstr("no CUDA-capable device"), HasSubstr("nvidia-smi")));
  machine.driver = false;
  EXPECT_THAT(refusal(machine, two),
              ::testing::AllOf(HasSubstr("libcuda.so.1"), HasSubstr("--device cpu")));
}

TEST(CudaLoad, TooFewGpusNameHowManyRanksEachWouldTake) {
  EXPECT_THAT(refusal(machine_of(1), task_of(0, 3, 1)),
              ::testing::AllOf(HasSubstr("need 3"), HasSubstr("has 1"),
                               HasSubstr("--ranks-per-device 3.")));
  EXPECT_EQ(refusal(machine_of(1), task_of(0, 3, 3)), "");
  EXPECT_THAT(refusal(machine_of(2), task_of(0, 5, 2)), HasSubstr("--ranks-per-device 3."));
  EXPECT_EQ(refusal(machine_of(2), task_of(0, 5, 3)), "");
  WorkerTask profile = task_of(0, 3, 1);
  profile.command = "profile";
  EXPECT_THAT(refusal(machine_of(2), profile), HasSubstr("Give --ranks"));
}

}  // namespace
}  // namespace penstock
