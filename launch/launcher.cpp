#include "launch/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <charconv>
#include <climits>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "launch/node_list.hpp"
#include "launch/process_tree.hpp"

namespace penstock {

namespace {

/// Names of a launcher's variables; "" where it sets none.
struct LauncherNames {
  const char *launcher, *sign, *rank, *size, *local_rank, *local_size, *node;
};

// From the innermost outwards: torchrun may run under srun, mpirun starts its helpers with srun.
constexpr std::array kLaunchers = {
    LauncherNames{"torchrun", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ""},
    LauncherNames{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", ""},
    // srun sets PMI_RANK too, for another MPI, but not this sign.
    LauncherNames{"mpiexec", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                  "MPI_LOCALNRANKS", ""},
    LauncherNames{"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                  "", "SLURM_NODEID"}};
const LauncherNames& kTorchrun = kLaunchers[0];
const LauncherNames& kMpiexec = kLaunchers[2];
const LauncherNames& kSrun = kLaunchers[3];
constexpr const char* kProxy = "PMI_PROXY";
constexpr const char* kInteractiveStep = "4294967290";  // the shell that salloc gives

/// Reads variables for one launcher.
class LauncherReader {
 public:
  LauncherReader(const EnvironmentVariables& variables, const LauncherNames& names)
      : variables_(variables), names_(names) {}

  std::string optional(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? "" : found->second;
  }

  std::string text(const std::string& name) const {
    if (std::string value = optional(name); !value.empty()) return value;
    const std::string sign = names_.sign;
    throw InputError(
        "environment", fmt::format("{}={}, but {} is not set", sign, optional(sign), name),
        fmt::format("{} sets both; unset {} to start all ranks from here.", names_.launcher, sign));
  }

  /// From `min` to `max`, which `reason` explains where it is not empty.
  int number(const std::string& name, int min, int max, const std::string& reason = "") const {
    const std::string value_text = text(name);
    int value = 0;
    const char* const end = value_text.data() + value_text.size();
    const auto [stop, error] = std::from_chars(value_text.data(), end, value);
    if (error == std::errc() && stop == end && value >= min && value <= max) return value;
    throw InputError("environment",
                     fmt::format("{}={} is not a number from {} to {}{}", name, value_text, min,
                                 max, reason.empty() ? "" : ", though " + reason),
                     fmt::format("Start it with {} anew; unset {} to start all ranks from here.",
                                 names_.launcher, names_.sign));
  }

  std::string show(const std::string& name) const { return name + "=" + optional(name); }

 private:
  const EnvironmentVariables& variables_;
  const LauncherNames& names_;
};

/// Tasks on this node: of Slurm's list the entry of SLURM_NODEID.
int slurm_local_size(const LauncherReader& reader, const Launcher& launcher) {
  const char* const name = "SLURM_STEP_TASKS_PER_NODE";
  const std::vector<int> tasks = expand_counts(reader.text(name), name);
  const int all = std::accumulate(tasks.begin(), tasks.end(), 0);
  if (launcher.node < static_cast<int>(tasks.size()) && all == launcher.world_size) {
    return tasks[static_cast<size_t>(launcher.node)];
  }
  throw InputError("environment",
                   fmt::format("{} does not fit {} and {}", reader.show(name),
                               reader.show(kSrun.size), reader.show(kSrun.node)),
                   "Start it with srun anew.");
}

void read_ranks(const LauncherReader& reader, const LauncherNames& names, Launcher& launcher) {
  launcher.world_size = reader.number(names.size, 1, INT_MAX);
  launcher.rank = reader.number(names.rank, 0, launcher.world_size - 1, reader.show(names.size));
  if (*names.node != '\0') launcher.node = reader.number(names.node, 0, INT_MAX);
  launcher.local_size =
      *names.local_size == '\0'
          ? slurm_local_size(reader, launcher)
          : reader.number(names.local_size, 1, launcher.world_size, reader.show(names.size));
  launcher.local_rank =
      reader.number(names.local_rank, 0, launcher.local_size - 1,
                    fmt::format("{} ranks are on this node", launcher.local_size));
  const int first_here = launcher.rank - launcher.local_rank;
  if (first_here >= 0 && first_here + launcher.local_size <= launcher.world_size) return;
  throw InputError("environment",
                   fmt::format("{} contradicts {}, of {} ranks on this node and {} in all",
                               reader.show(names.local_rank), reader.show(names.rank),
                               launcher.local_size, launcher.world_size),
                   fmt::format("Start it with {} anew.", names.launcher));
}

/// A name that tells this run from others.
std::string run_name(const LauncherReader& reader, const LauncherNames& names,
                     const Launcher& launcher) {
  if (&names == &kTorchrun) {
    return reader.optional("TORCHELASTIC_RUN_ID") + "/" +
           reader.optional("TORCHELASTIC_RESTART_COUNT");
  }
  const bool one_node = launcher.local_size == launcher.world_size;
  const std::string job =
      &names == &kSrun ? reader.optional("SLURM_JOB_ID") + "." + reader.optional("SLURM_STEP_ID")
      : &names == &kMpiexec ? reader.optional(one_node ? kProxy : "")
                            : reader.optional("PMIX_NAMESPACE");
  return fmt::format("{}/{}", names.launcher, job);
}

std::string store_host(const LauncherReader& reader, const LauncherNames& names,
                       const Launcher& launcher) {
  if (std::string given = reader.optional("MASTER_ADDR"); !given.empty()) return given;
  if (&names == &kTorchrun) return reader.text("MASTER_ADDR");
  if (launcher.local_size == launcher.world_size) return "127.0.0.1";
  if (&names == &kSrun) {
    const char* const list = "SLURM_STEP_NODELIST";
    return expand_hosts(reader.text(list), list).front();
  }
  throw InputError("environment",
                   fmt::format("{} ranks on several nodes ({}), but MASTER_ADDR is not set",
                               launcher.world_size, reader.show(names.local_size)),
                   "Give all ranks the address of rank 0's node, as in mpirun -x MASTER_ADDR=node1 "
                   "(Open MPI) or mpiexec -genv MASTER_ADDR node1 (MPICH, Intel MPI).");
}

/// A rank of one launcher that is another one's rank at the same time.
[[noreturn]] void refuse_contradiction(const std::string& one, const std::string& other) {
  throw InputError("environment", fmt::format("{} contradicts {}", one, other),
                   "Unset the one that does not count.");
}

bool present(const EnvironmentVariables& variables, const LauncherNames& names) {
  const auto sign = variables.find(names.sign);
  return sign != variables.end() && sign->second != kInteractiveStep;
}

/// Somebody may set torchrun's variables under another launcher: to the same values.
void check_agreement(const LauncherReader& reader, const LauncherNames& inner,
                     const LauncherNames& outer) {
  for (const auto& [own, others] :
       {std::pair{kTorchrun.rank, outer.rank}, std::pair{kTorchrun.size, outer.size}}) {
    const std::string value = reader.optional(own);
    if (value.empty() && &inner != &kTorchrun) continue;
    if (value != reader.optional(others)) {
      refuse_contradiction(reader.show(own), reader.show(others));
    }
  }
}

/// torchrun under another launcher counts for itself; anything else must agree with it.
void check_nesting(const EnvironmentVariables& variables, const LauncherNames& inner) {
  const LauncherReader reader(variables, inner);
  if (&inner == &kTorchrun && !reader.optional("TORCHELASTIC_RUN_ID").empty()) return;
  for (const LauncherNames& outer : kLaunchers) {
    if (&outer == &kTorchrun || !present(variables, outer)) continue;
    return check_agreement(reader, inner, outer);
  }
}

const LauncherNames* innermost(const EnvironmentVariables& variables) {
  for (const LauncherNames& names : kLaunchers) {
    if (present(variables, names)) return &names;
  }
  for (const char* const name : {kTorchrun.size, kTorchrun.local_rank}) {
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    throw InputError(
        "environment", fmt::format("{}={}, but RANK is not set", name, found->second),
        fmt::format("torchrun sets both; unset {} to start all ranks from here.", name));
  }
  return nullptr;
}

}  // namespace

int port_from(const std::string& job) {
  return 10000 + static_cast<int>(XXH32(job.data(), job.size(), 0) % 20000);
}

std::optional<Launcher> find_launcher(const EnvironmentVariables& variables) {
  const LauncherNames* const names = innermost(variables);
  if (names == nullptr) return std::nullopt;
  check_nesting(variables, *names);
  const LauncherReader reader(variables, *names);
  Launcher launcher{
      .name = names->launcher, .size_variable = names->size, .own_variable = names->sign};
  read_ranks(reader, *names, launcher);
  const std::string run = run_name(reader, *names, launcher);
  launcher.prefix = run + "/";
  if (const std::string session = reader.optional(kSession); !session.empty())
    launcher.prefix += "session " + session + "/";
  launcher.host = store_host(reader, *names, launcher);
  const bool given = names == &kTorchrun || !reader.optional("MASTER_PORT").empty();
  launcher.port = given ? reader.number("MASTER_PORT", 1, 65535) : port_from(run);
  launcher.hosts_store =
      names == &kTorchrun && reader.optional("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return launcher;
}

EnvironmentVariables process_environment() {
  EnvironmentVariables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != text.npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (!variables.contains(kMpiexec.sign)) return variables;
  if (const auto proxy = process_above("pmi_proxy")) variables[kProxy] = std::to_string(*proxy);
  return variables;
}

}  // namespace penstock
