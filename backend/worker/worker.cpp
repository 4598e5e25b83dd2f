#include "backend/worker/worker.hpp"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <poll.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "backend/communication/cause.hpp"
#include "backend/communication/gloo.hpp"
#include "backend/communication/interface.hpp"
#include "backend/communication/local/local.hpp"
#include "backend/communication/nccl/communicator.hpp"
#include "backend/communication/nccl/shared_memory.hpp"
#include "backend/device/cuda_load.hpp"
#include "backend/device/memory.hpp"
#include "backend/profiler/links/link.hpp"
#include "backend/profiler/profiler.hpp"
#include "backend/stage/recipe/initial_values.hpp"
#include "backend/worker/events.hpp"
#include "backend/worker/execution.hpp"
#include "backend/worker/process.hpp"
#include "base/error.hpp"
#include "launch/state_dict_task.hpp"
#include "launch/supervision/fleet.hpp"
#include "pipeline/checkpoint/state_dict.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

namespace {

// For supervisors whose ranks have just met to find each other.
constexpr double kAllHaveCome_s = 30;

nlohmann::json read_line() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("penstock-worker is started by penstock, which gives it its task");
  }
  return nlohmann::json::parse(line);
}

/// Is there something to read by then?
bool has_input(double seconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, static_cast<int>(seconds * 1e3)) > 0;
}

/// Hosts the store, or finds its address.
std::unique_ptr<SharedStore> join_store(const WorkerTask& task) {
  StoreAddress address{task.store_host, task.store_port, task.store_serve, task.store_prefix,
                       task.start_timeout_s};
  if (address.port == 0 && !address.serve) address.port = read_line().at("port").get<int>();
  auto store = open_tcp_store(address);
  if (address.serve) emit({{"event", "port"}, {"port", address.port}});
  return store;
}

/// A user's mistake that this rank finds before it has met the others ends them too.
template <typename Load>
auto load_or_refuse(const WorkerTask& task, SharedStore& store, const Load& load) {
  try {
    return load();
  } catch (const InputError& error) {
    if (task.launched) refuse_to_run(seat_at_meeting(task, store), error.what());
    throw;
  }
}

/// The loopback is enough for one machine.
std::string own_address(const WorkerTask& task) {
  return task.one_machine ? "127.0.0.1" : address_towards(task.store_host, task.store_port);
}

/// The supervisors of the ranks find each other, before any rank has a state to lose.
void introduce_supervisors(const WorkerTask& task, SharedStore& store, const std::string& host) {
  if (task.fleet_port < 0) return;
  if (task.process == 0) {
    store.set("fleet",
              nlohmann::json(FleetAddress{host, task.fleet_port, task.fleet_token}).dump());
    const double patience_s = std::min(kAllHaveCome_s, task.start_timeout_s);
    if (!has_input(patience_s))
      throw PeerError(-1, fmt::format("not all ranks had come {:g} s after they met", patience_s));
    read_line();  // the others have come
  } else {
    nlohmann::json event = nlohmann::json::parse(store.get("fleet"));
    event["event"] = "fleet";
    emit(event);
  }
}

void compare(const WorkerTask& task, SharedStore& store, const Facts& own) {
  Facts facts = task.facts;
  facts.insert(own.begin(), own.end());
  facts["protocol"] = kProtocolVersion;
  facts["number of ranks"] = std::to_string(task.world_size);
  shake_hands(seat_at_meeting(task, store), facts, task.start_timeout_s);
}

/// The ranks compare what they are to run, take their cores, and connect. `cores`: how many cores
/// the ranks of this machine have together. `spare`: of this rank, if there is work for it.
std::unique_ptr<Communicator> meet(const WorkerTask& task, SharedStore& store, const Facts& own,
                                   const SpareTime* spare = nullptr, int* cores = nullptr) {
  const std::string address = load_or_refuse(task, store, [&] { return own_address(task); });
  compare(task, store, own);
  introduce_supervisors(task, store, address);
  const int found = settle_process(task, store);
  if (cores != nullptr) *cores = found;
  auto remote = make_gloo(store, task.rank, task.world_size, address);
  if (task.transport == "gloo") return remote;
  return make_local(seat_of_rank(task, store), std::move(remote), spare);
}

void execute(const WorkerTask& task, CudaModule* cuda) {
  const auto store = join_store(task);
  const auto execution =
      load_or_refuse(task, *store, [&] { return std::make_unique<Execution>(task, *store, cuda); });
  auto communicator = meet(task, *store, execution->facts(), &execution->spare_time());
  try {
    execution->run(std::move(communicator));
  } catch (...) {
    const WorkerError error = describe_failure(std::current_exception(), execution->place());
    // The process that started all ranks knows the cause, or those that did learn it.
    if (!task.launched || !task.slots.empty()) fail(error);
    emit(to_json(error));  // the launcher may end this process at any moment
    fail(find_cause(seat_of_process(task, *store), error, execution->rank_with_store()));
  }
}

/// Would run as the ranks do, and has its supervisor find the others'.
void spare(const WorkerTask& task, CudaModule*) {
  const auto store = join_store(task);
  const Facts own = load_or_refuse(task, *store, [&] {
    const ExecuteTask wanted = parse_execute_task(task.arguments);
    return facts_of(wanted, *load_plan(wanted));
  });
  compare(task, *store, own);
  introduce_supervisors(task, *store, "");
}

void profile(const WorkerTask& task, CudaModule* cuda) {
  const auto store = join_store(task);
  profiler::Request request{.job = task.arguments.at("job"),
                            .partial = task.arguments.at("partial"),
                            .quick = task.arguments.at("quick")};
  if (request.quick) request.effort = profiler::quick_effort;
  if (const auto seconds = task.arguments.find("budget_s"); seconds != task.arguments.end())
    request.effort.seconds = *seconds;
  request.tensor_parallel = task.arguments.at("tensor_parallel").get<std::vector<int>>();
  if (const std::string plan = task.arguments.at("sharding"); !plan.empty())
    request.sharding = read_plan(plan).sharding;
  std::unique_ptr<ComputeDevice> gpu;
  std::unique_ptr<NcclApi> nccl;
  int cores = 0;
  auto communicator = meet(task, *store, {}, nullptr, &cores);
  if (task.one_machine) request.cores = cores;
  if (cuda != nullptr) {
    const int index = cuda_device_of(cuda->look(), task);
    gpu = cuda->open(index);
    nccl = cuda->nccl();
    request.device = gpu.get();
    request.gpu = cuda->describe(index);
    request.ranks_per_device = task.ranks_per_device;
    std::vector<LaneKey> lanes;  // for the link that is measured
    if (task.world_size > 1) lanes = {{0, 1, false}, {1, 0, true}};
    if (task.ranks_per_device > 1) check_shared_memory(ends_of(lanes), free_shared_memory());
    communicator->barrier();     // none takes memory before all have checked
    std::vector<int64_t> taken;  // after each lane: the first includes NCCL's fixed costs
    NcclOptions options{.device = gpu->where(), .deadline_s = task.start_timeout_s};
    options.after_round = [&] { taken.push_back(gpu->other_bytes()); };
    communicator = make_nccl(*nccl, *store, std::move(communicator), lanes, options);
    if (task.rank < 2 && taken.size() == 2) {
      const int sharing = std::min(task.ranks_per_device, 2);  // each sees the memory of both ends
      request.lanes = 2 * sharing;
      request.lane_bytes = std::max<int64_t>(taken[1] - taken[0], 0) / sharing;
    }
  }
  emit({{"event", "ready"}});
  profiler::run(request, *communicator, emit);
}

/// The link between ranks 0 and 1 alone.
void link(const WorkerTask& task, CudaModule*) {
  constexpr int64_t kLargest = 16 << 20;
  const auto store = join_store(task);
  const auto communicator = meet(task, *store, {});
  const auto links = profiler::measure_links(*communicator, kLargest, task.one_machine);
  communicator->barrier();
  if (task.rank == 0) {
    const LinkCost& idle = links.at(0);
    emit({{"event", "link"},
          {"kind", idle.kind},
          {"latency_s", idle.latency_s},
          {"bandwidth", idle.bandwidth},
          {"sender_s_per_byte", idle.sender_s_per_byte},
          {"receiver_s_per_byte", idle.receiver_s_per_byte},
          {"residual", idle.residual},
          {"samples", idle.samples}});
  }
  gather(seat_of_process(task, *store), "done", "");
}

/// Reports the number of GPUs.
void devices(const WorkerTask& /*task*/, CudaModule* cuda) {
  emit({{"event", "devices"}, {"count", cuda == nullptr ? 0 : cuda->look().devices}});
}

/// Writes a state dictionary, some of whose values have to be initialised first.
void state_dict(const WorkerTask& task, CudaModule*) {
  const auto wanted = task.arguments.get<StateDictTask>();
  const Plan plan = read_plan(wanted.plan);
  const Graph model = read_model(plan.job);
  std::optional<IntactCheckpoint> checkpoint;
  if (!wanted.checkpoint.empty()) checkpoint = require_intact(wanted.checkpoint);
  const auto initialise = [](const StoredTensor& tensor, const InitialValues& values,
                             std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), initial_tensor(tensor, values).const_data_ptr(), bytes.size());
  };
  const int64_t names = StateDict(plan, model, checkpoint).write(wanted.output, initialise);
  emit({{"event", "written"}, {"names", names}});
}

/// Finds out by trying whether this processor can.
void multiply_bf16(const WorkerTask& /*task*/, CudaModule*) {
  const at::Tensor ones = at::ones({32, 32}, at::kBFloat16);
  at::addmm(ones, ones, ones);
}

/// Ends this rank and tells the others why.
void refuse(const WorkerTask& task, CudaModule*) {
  const auto store = join_store(task);
  refuse_to_run(seat_at_meeting(task, *store), task.arguments.at("message"));
}

const std::map<std::string, void (*)(const WorkerTask&, CudaModule*)> kCommands{
    {"execute", execute},
    {"spare", spare},
    {"profile", profile},
    {"link", link},
    {"devices", devices},
    {"state_dict", state_dict},
    {"multiply_bf16", multiply_bf16},
    {"refuse", refuse}};

/// Its symbols do not tell one release from another.
void check_torch() {
  constexpr uint64_t built = TORCH_ABI_VERSION;
  const uint64_t found = aoti_torch_abi_version();
  if (found >> 48 == built >> 48) return;
  const auto release = [](uint64_t version) {
    return fmt::format("{}.{}", version >> 56, version >> 48 & 0xff);
  };
  throw InputError("LibTorch",
                   fmt::format("torch {} is installed, but penstock-worker was built with {}",
                               release(found), release(built)),
                   fmt::format("pip install 'torch=={}.*'", release(built)));
}

}  // namespace

void run_worker() {
  WorkerError where;
  try {
    keep_output_for_events();
    c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL, which penstock sets
    const WorkerTask task = parse_task(read_line());
    where.rank = task.rank;
    check_torch();
    CudaModule* const cuda = task.device == "cuda" ? &load_cuda(task) : nullptr;
    memory::count_cpu();
    kCommands.at(task.command)(task, cuda);
  } catch (...) {
    fail(std::current_exception(), where);
  }
  _exit(0);  // without joining Gloo's threads
}

}  // namespace penstock
