#include "backend/profiler/profiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "backend/device/description.hpp"
#include "backend/device/probe.hpp"
#include "backend/profiler/constants.hpp"
#include "backend/profiler/hosts.hpp"
#include "backend/profiler/links/link.hpp"
#include "backend/profiler/links/sums.hpp"
#include "backend/profiler/replays.hpp"
#include "backend/profiler/resume.hpp"
#include "backend/profiler/size_series.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/probes.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/sharding/group_graphs.hpp"

namespace penstock::profiler {
namespace {

/// The progress at which all sizes have been measured.
constexpr double kSizesDone = 0.97;

std::string name_of(const GroupGraph& group) { return fmt::format(" of {} parts", group.parts); }

class Profiler {
 public:
  Profiler(const Request& request, Communicator& communicator, const Emit& emit)
      : request_(request), communicator_(communicator), emit_(emit), device_(*request.device) {}

  void run() {
    profile_.base_memory_bytes =
        std::max<int64_t>(device_.other_bytes() - request_.lanes * request_.lane_bytes, 0);
    profile_.job = read_job(request_.job);
    const Graph graph = read_model(profile_.job);
    profile_.model_sha256 = graph.sha256;
    profile_.device = machine();
    if (request_.quick) profile_.device.details["quick"] = "yes";
    choose_sizes(graph);
    tell("loading", 0);
    choose_groups(graph);
    go_on();
    settle_clocks(device_);
    probe();
    const int64_t largest = measure_model(graph);
    for (size_t i = 0; i < groups_.size(); ++i) measure_group(graph, i);
    std::erase_if(profile_.groups, [](const auto& group) { return group.microbatches.empty(); });
    profile_.base_memory_bytes += device_.workspace_bytes();
    measure_links(largest);
    probe();
    save();
  }

 private:
  bool gpu() const { return !device_.where().is_cpu(); }
  int64_t lane_bytes() {
    return std::llround(from_rank(communicator_, 0, static_cast<double>(request_.lane_bytes)));
  }
  /// The GPU's description, with that of the process that drives it.
  DeviceInfo machine() const {
    DeviceInfo info = cpu_info(communicator_.size());
    info.cores = gpu() ? 0 : request_.cores;
    if (!gpu()) return info;
    DeviceInfo found = request_.gpu;
    found.threads = info.threads;
    found.details.merge(info.details);
    found.details["ranks_per_device"] = std::to_string(request_.ranks_per_device);
    return found;
  }

  /// `share`: of what is measured of the model or of a group.
  void tell(const std::string& what, double share) {
    if (communicator_.rank() != 0) return;
    const double all = kSizesDone * (series_ + share) / double(1 + groups_.size());
    emit_({{"event", "progress"}, {"what", what}, {"share", all}});
  }
  void warn(const std::string& message) {
    if (communicator_.rank() == 0) emit_({{"event", "warning"}, {"message", message}});
  }

  /// Once a device can record its kernels, its host takes longer to issue work, recorded or not.
  /// Execution never asks for records, so hosts' times are scaled to those before.
  void attach_records(Subject& subject) {
    if (!device_.runs_behind()) return;
    const bool affordable = int64_t{2} * kIssuePasses * sizes_.front() <= profile_.job.global_batch;
    const double before_s = affordable ? issue_s(subject, sizes_.front()) : 0;
    if (device_.trace() == nullptr) {
      warn(
          fmt::format("{}. Times include what the GPU waits for its host, which is more than it "
                      "will wait in a pipeline.",
                      device_.no_trace()));
    } else if (affordable) {
      host_scale_ = std::min(1.0, before_s / issue_s(subject, sizes_.front()));
    }
    mean_over_ranks(communicator_, {&host_scale_});
    profile_.device.details["host_scale"] = fmt::format("{:.4f}", host_scale_);
  }

  void warn_of_lost_records(const Subject& subject, const std::string& of) {
    const int lost = subject.whole.lost() + subject.by_unit.lost() + subject.by_group.lost();
    if (lost == 0) return;
    warn(
        fmt::format("the GPU's records of {} repetitions{} are lost: their times include what it "
                    "waited for its host",
                    lost, of));
  }

  void save() {
    if (communicator_.rank() != 0) return;
    write_file(request_.partial, to_json(profile_, request_.partial));
  }

  /// Probes run before, between and after the measurements.
  void probe() {
    communicator_.barrier();
    Probe now = run_probe(device_);
    mean_over_ranks(communicator_, {&now.gemm_s, &now.copy_s, &now.spread});
    probes_.push_back(now);
    profile_.probe = combine(probes_);
  }

  /// Costs that an earlier run measured.
  void go_on() {
    Resumed resumed = resume(request_.partial, profile_);
    communicator_.barrier();  // rank 0 writes the file that all have read
    profile_.microbatches = std::move(resumed.microbatches);
    for (const GroupGraph& group : groups_) profile_.groups.push_back(resumed.costs_of(group));
  }

  void choose_groups(const Graph& graph) {
    std::vector<int64_t> sizes = sizes_;
    std::ranges::sort(sizes);
    groups_ =
        group_graphs(graph, profile_.job.loss, request_.sharding, sizes, request_.tensor_parallel);
    for (const int parts : request_.tensor_parallel)
      if (std::ranges::count(groups_, parts, &GroupGraph::parts) == 0)
        warn(fmt::format("tensor groups of {} are not measured: they could not share any operator",
                         parts));
  }

  void choose_sizes(const Graph& graph) {
    const auto all = microbatch_sizes(graph, profile_.job.global_batch, request_.job);
    sizes_ = affordable(all, profile_.job.global_batch, request_.effort);
    std::ranges::copy_if(all, std::back_inserter(left_out_), [&](int64_t size) {
      return std::ranges::find(sizes_, size) == sizes_.end();
    });
  }

  void measure_constants(Subject& subject) {
    tell("gradients", 0.01);
    warm_up(subject, sizes_.front());
    communicator_.barrier();
    profile_.accumulate_s_per_byte = accumulate_s_per_byte(subject);
    profile_.zero_s_per_byte = zero_s_per_byte(subject);
    // A host that runs ahead bears the overhead, not its device.
    (device_.runs_behind() ? profile_.action_host_s : profile_.action_overhead_s) =
        action_overhead_s(device_);
    mean_over_ranks(communicator_, {&profile_.accumulate_s_per_byte, &profile_.zero_s_per_byte,
                                    &profile_.action_overhead_s, &profile_.action_host_s});
  }

  /// After passes, as in a step, whose memory is warm.
  void measure_stepping(Subject& subject) {
    tell("the optimizer", 0.955);
    warm_up(subject, sizes_.front());
    communicator_.barrier();
    StepRates rates = step_rates(subject);
    mean_over_ranks(communicator_, {&rates.per_tensor_s, &rates.per_byte_s});
    profile_.optimizer_s_per_tensor = rates.per_tensor_s;
    profile_.optimizer_s_per_byte = rates.per_byte_s;
  }

  /// Measures what is not known yet of these sizes, and adds it to `costs`.
  void measure_sizes(Subject& subject, const std::vector<int64_t>& sizes, const std::string& of,
                     std::vector<int64_t> left_out, std::vector<MicrobatchCosts>& costs) {
    SizeSeries series(
        request_, communicator_, subject, of,
        {.progress = [this](const std::string& what,
                            double share) { tell(what, 0.03 + 0.92 * share); },
         .warning = [this](const std::string& message) { warn(message); },
         .measured = [&](SizeResult&& result) { add(std::move(result), of, costs); }});
    series.run(sizes_, sizes, costs, std::move(left_out), profile_.accumulate_s_per_byte);
    warn_of_lost_records(subject, of);
  }

  void add(SizeResult&& result, const std::string& of, std::vector<MicrobatchCosts>& costs) {
    scale_hosts(result.costs, host_scale_);
    const int64_t size = result.costs.microbatch;
    const ScaleFactors& scale = result.unit_scale;
    if (of.empty())
      profile_.device.details[fmt::format("unit_scale.{}", size)] = fmt::format(
          "F {:.4f} B {:.4f} I {:.4f} W {:.4f}", scale.forward.device, scale.backward.device,
          scale.backward_input.device, scale.backward_weight.device);
    costs.insert(std::ranges::upper_bound(costs, size, {}, &MicrobatchCosts::microbatch),
                 std::move(result.costs));
    save();
    probe();
  }

  /// The whole model. Returns the bytes of the largest message that is to be measured.
  int64_t measure_model(const Graph& graph) {
    Subject subject(profile_.job, graph, device_);
    measure_constants(subject);
    attach_records(subject);
    measure_sizes(subject, sizes_, "", left_out_, profile_.microbatches);
    if (profile_.microbatches.empty())
      throw InputError(request_.job, "there is no memory for a microbatch of the smallest size",
                       "Profile with fewer ranks on the device, or on one with more memory.");
    measure_stepping(subject);
    measure_replays(subject);
    return largest_message(subject);
  }

  void measure_group(const Graph& model, size_t i) {
    series_ = static_cast<int>(i) + 1;
    const GroupGraph& group = groups_[i];
    const std::string of = name_of(group);
    tell("loading" + of, 0);
    device_.give_back_memory();
    const GroupTensors tensors{model, group.parts, group.local.tensors};
    Subject subject(profile_.job, group.local.graph, device_, &tensors);
    std::vector<int64_t> sizes;
    std::ranges::copy_if(sizes_, std::back_inserter(sizes),
                         [&](int64_t size) { return std::ranges::count(group.sizes, size) > 0; });
    communicator_.barrier();
    measure_sizes(subject, sizes, of, {}, profile_.groups[i].microbatches);
  }

  /// Is a step of this size close to launch-bound, and are its CUDA graphs measured in less time
  /// than a step or what a size has?
  bool replays_wanted(const MicrobatchCosts& costs) const {
    const WorkSeconds pass = costs.pass();
    return worth_capturing(pass.host_s, pass.longer_s()) &&
           (costs.microbatch * kReplayPasses <= profile_.job.global_batch ||
            pass.longer_s() * kReplayPasses <= request_.effort.size_seconds);
  }

  /// Measures CUDA graphs at ascending sizes, up to one at which that fails, as for want of memory.
  void measure_replays(Subject& subject) {
    for (const MicrobatchCosts& costs : profile_.microbatches) {
      if (!replays_wanted(costs)) continue;
      tell(fmt::format("CUDA graphs, microbatch {}", costs.microbatch), 0.96);
      communicator_.barrier();
      Replays replays = profiler::measure_replays(subject, costs.microbatch);
      device_.give_back_memory();
      if (largest_over_ranks(communicator_, replays.times ? 0 : 1) > 0) {
        const std::string why = replays.times ? "another rank failed" : replays.why_not;
        warn(profile_.replays.empty()
                 ? "steps are predicted without CUDA graphs, which could not be measured: " + why
                 : fmt::format("CUDA graphs could not be measured at microbatch {} and are "
                               "predicted by those of {}: {}",
                               costs.microbatch, profile_.replays.back().microbatch, why));
        return;
      }
      mean_over_ranks(communicator_, *replays.times);
      scale_hosts(*replays.times, host_scale_);
      profile_.replays.push_back({costs.microbatch, *replays.times});
    }
  }

  /// Messages are measured up to what the largest microbatch sends over any cut of the plan.
  int64_t largest_message(const Subject& subject) const {
    const int64_t crossing = subject.largest_crossing(profile_.microbatches.back().microbatch);
    return std::clamp(crossing, int64_t{1} << 20, int64_t{16} << 20);
  }

  void measure_links(int64_t largest) {
    series_ = static_cast<int>(groups_.size()) + 1;
    tell("the link between two ranks", 0);
    profile_.links = gpu() ? measure_gpu_links(communicator_, device_, largest)
                           : profiler::measure_links(communicator_, largest);
    for (LinkCost& link : profile_.links) link.lane_bytes = lane_bytes();
    if (communicator_.size() > 1)
      profile_.links.push_back(
          measure_sums(communicator_, device_, profile_.links.front().kind + "-sum"));
  }

  const Request& request_;
  Communicator& communicator_;
  const Emit& emit_;
  ComputeDevice& device_;
  Profile profile_;
  std::vector<int64_t> sizes_, left_out_;
  std::vector<GroupGraph> groups_;  // whose costs are profile_.groups
  int series_ = 0;                  // the model, then each of these
  std::vector<Probe> probes_;
  double host_scale_ = 1;
};

}  // namespace

void run(const Request& request, Communicator& communicator, const Emit& emit) {
  Profiler(request, communicator, emit).run();
}

}  // namespace penstock::profiler
