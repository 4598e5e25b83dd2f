// Starting ranks as processes, placing them on cores and devices, and talking to them.
//
// This file reads a process's place in a run that torchrun, srun or mpirun has started from the
// variables that these set.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace penstock {

using EnvironmentVariables = std::map<std::string, std::string>;

struct Launcher {
  std::string name;           // `torchrun`, `mpirun`, `mpiexec`, `srun`
  std::string size_variable;  // that world_size was read from
  std::string own_variable;   // without it this process would start all ranks itself
  int rank = 0, world_size = 1, local_rank = 0, local_size = 1, node = 0;
  std::string host;  // of the store
  int port = 0;
  bool hosts_store = false;  // the launcher already listens there, otherwise rank 0 does
  std::string prefix;        // differs between runs and restarts; of mpiexec on one machine alone
};

/// The innermost launcher, or nothing:
///   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
///   mpirun    (Open MPI) OMPI_COMM_WORLD_RANK, …_SIZE, …_LOCAL_RANK, …_LOCAL_SIZE
///   mpiexec   (MPICH, Intel MPI) PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
///   srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE,
///             SLURM_NODEID; in a batch script or an interactive shell of Slurm there is none
/// MASTER_ADDR is otherwise 127.0.0.1 where all ranks are on one node, Slurm's first node, or has
/// to be given; MASTER_PORT follows from the number of the job, of mpiexec from PMI_PROXY. Throws
/// InputError for an environment that is half set or contradicts itself, with the variables and
/// their values.
/// kSession numbers the runs of one launcher's processes, so that two of them do not meet.
std::optional<Launcher> find_launcher(const EnvironmentVariables& variables);

inline constexpr const char* kSession = "PENSTOCK_SESSION";

/// The variables of this process; and under mpiexec `PMI_PROXY`, the number of the process that has
/// started all ranks of this machine, since nothing else tells two runs apart.
EnvironmentVariables process_environment();

/// A port below those that systems give out by themselves, the same for the same text.
int port_from(const std::string& job);

}  // namespace penstock
