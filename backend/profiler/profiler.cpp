#include "backend/profiler/profiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/device/description.hpp"
#include "backend/device/out_of_memory.hpp"
#include "backend/device/probe.hpp"
#include "backend/profiler/constants.hpp"
#include "backend/profiler/hosts.hpp"
#include "backend/profiler/links/link.hpp"
#include "backend/profiler/links/sums.hpp"
#include "backend/profiler/measure_size.hpp"
#include "backend/profiler/replays.hpp"
#include "backend/profiler/resume.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "backend/profiler/timing/budget.hpp"
#include "backend/profiler/timing/clock.hpp"
#include "backend/profiler/timing/probes.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock::profiler {
namespace {

/// A GPU's allocator takes memory in blocks of at least 2 MiB, and never the last of it.
constexpr double kGpuMargin = 1.1;

class Profiler {
 public:
  Profiler(const Request& request, Communicator& communicator, const Emit& emit)
      : request_(request), communicator_(communicator), emit_(emit), device_(*request.device) {}

  void run() {
    profile_.base_memory_bytes =
        std::max<int64_t>(device_.other_bytes() - request_.lanes * request_.lane_bytes, 0);
    profile_.job = read_job(request_.job);
    budget_ = Budget(profile_.job.global_batch);
    const Graph graph = read_model(profile_.job);
    profile_.model_sha256 = graph.sha256;
    profile_.device = machine();
    if (request_.quick) profile_.device.details["quick"] = "yes";
    profile_.microbatches = resume(request_.partial, profile_);
    communicator_.barrier();  // rank 0 writes the file that all have read
    choose_sizes(graph);
    tell("loading", 0);
    settle_clocks(device_);
    probe();
    Subject subject(profile_.job, graph, device_);
    measure_constants(subject);
    attach_records(subject);
    measure_sizes(subject);
    measure_stepping(subject);
    measure_replays(subject);
    warn_of_lost_records(subject);
    profile_.base_memory_bytes += device_.workspace_bytes();
    tell("the link between two ranks", 0.97);
    profile_.links = gpu() ? measure_gpu_links(communicator_, device_, largest_message(subject))
                           : measure_links(communicator_, largest_message(subject));
    for (LinkCost& link : profile_.links) link.lane_bytes = lane_bytes();
    if (communicator_.size() > 1)
      profile_.links.push_back(
          measure_sums(communicator_, device_, profile_.links.front().kind + "-sum"));
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

  void tell(const std::string& what, double share) {
    if (communicator_.rank() == 0) emit_({{"event", "progress"}, {"what", what}, {"share", share}});
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

  void warn_of_lost_records(const Subject& subject) {
    const int lost = subject.whole.lost() + subject.by_unit.lost() + subject.by_group.lost();
    if (lost == 0) return;
    warn(
        fmt::format("the GPU's records of {} repetitions are lost: their times include what it "
                    "waited for its host",
                    lost));
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

  void choose_sizes(const Graph& graph) {
    const auto all = microbatch_sizes(graph, profile_.job.global_batch, request_.job);
    sizes_ = affordable(all, profile_.job.global_batch, request_.effort);
    std::ranges::copy_if(all, std::back_inserter(left_out_), [&](int64_t size) {
      return std::ranges::find(sizes_, size) == sizes_.end();
    });
  }

  /// Would the minimum of repetitions of this size exceed the time? All ranks decide alike.
  bool takes_too_long(size_t i, double began_s) {
    if (i < request_.effort.sizes) return false;
    const double spent_s = from_rank(communicator_, 0, now_s() - began_s);
    const double share = double(sizes_[i]) / double(profile_.job.global_batch);
    const double needed_s = request_.effort.minimum.passes() * share * budget_.step_s();
    return spent_s + needed_s > request_.effort.seconds;
  }

  void warn_of_sizes_left_out() {
    if (left_out_.empty()) return;
    std::ranges::sort(left_out_);
    warn(fmt::format(
        "not measured, to end within {:g} s and {:g} training steps (--budget TIME sets "
        "the seconds): microbatch {}",
        request_.effort.seconds, request_.effort.steps, fmt::join(left_out_, ", ")));
  }

  void measure_constants(Subject& subject) {
    tell("gradients", 0.01);
    warm_up(subject, sizes_.front());
    communicator_.barrier();
    profile_.accumulate_s_per_byte = accumulate_s_per_byte(subject);
    profile_.zero_s_per_byte = zero_s_per_byte(subject);
    profile_.hand_off_s_per_byte = hand_off_s_per_byte(device_);
    // A host that runs ahead bears the overhead, not its device.
    (device_.runs_behind() ? profile_.action_host_s : profile_.action_overhead_s) =
        action_overhead_s(device_);
    mean_over_ranks(communicator_, {&profile_.accumulate_s_per_byte, &profile_.zero_s_per_byte,
                                    &profile_.hand_off_s_per_byte, &profile_.action_overhead_s,
                                    &profile_.action_host_s});
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

  void measure_sizes(Subject& subject) {
    double done = 0;
    const double began_s = now_s();
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const double part = allowed_steps(i) / request_.effort.steps;
      if (profile_.at(sizes_[i]) != nullptr) {
        budget_.add(*profile_.at(sizes_[i]));
      } else if (sizes_[i] < too_large_) {
        if (takes_too_long(i, began_s)) {
          left_out_.push_back(sizes_[i]);
        } else if (fits(sizes_[i]) && measure(subject, i, done, part)) {
          save();
          probe();
        }
      }
      done += part;
    }
    warn_of_sizes_left_out();
    if (!profile_.microbatches.empty()) return;
    throw InputError(request_.job, "there is no memory for a microbatch of the smallest size",
                     "Profile with fewer ranks on the device, or on one with more memory.");
  }

  double allowed_steps(size_t i) const {
    return profiler::allowed_steps(sizes_, i, profile_.job.global_batch, request_.effort);
  }

  /// Returns nothing where a rank has no memory for it.
  std::optional<SizeResult> measured(Subject& subject, size_t i,
                                     const std::function<void(double)>& progress) {
    const int64_t size = sizes_[i];
    double pass_s = 0;
    if (!fits_everywhere(communicator_, [&] { pass_s = warm_up(subject, size); }))
      return std::nullopt;
    mean_over_ranks(communicator_, {&pass_s});
    budget_.add_pass(size, pass_s);
    const Effort& effort = request_.effort;
    const double step_s = std::min(budget_.step_s(), effort.seconds / effort.steps);
    const double least_s =
        std::min(effort.size_seconds, effort.seconds / (2.0 * static_cast<double>(sizes_.size())));
    const double allowed_s = std::max(allowed_steps(i) * step_s, least_s);
    Repetitions least = effort.minimum;
    if (i == 0) least.units = std::max(least.units, effort.noise_units);
    return measure_size(subject, size, repetitions(allowed_s / pass_s, least),
                        profile_.accumulate_s_per_byte, communicator_, progress);
  }

  /// Returns false where the memory is full.
  bool measure(Subject& subject, size_t i, double done, double part) {
    const int64_t size = sizes_[i];
    const std::string what = fmt::format("microbatch {}", size);
    const auto progress = [&](double share) { tell(what, 0.03 + 0.92 * (done + part * share)); };
    progress(0);
    communicator_.barrier();
    std::optional<SizeResult> result = measured(subject, i, progress);
    if (!result) {
      too_large_ = size;
      for (Chain* chain : {&subject.whole, &subject.by_unit, &subject.by_group}) chain->reset();
      device_.give_back_memory();
      warn(fmt::format("microbatch {} and larger ones are not measured: the memory is full", size));
      return false;
    }
    scale_hosts(result->costs, host_scale_);
    budget_.add_pass(size, result->pass_s);
    budget_.add_bytes(size, result->peak_bytes);
    profile_.device.details[fmt::format("unit_scale.{}", size)] =
        fmt::format("F {:.4f} B {:.4f} I {:.4f} W {:.4f}", result->unit_scale.forward.device,
                    result->unit_scale.backward.device, result->unit_scale.backward_input.device,
                    result->unit_scale.backward_weight.device);
    auto& all = profile_.microbatches;
    all.insert(std::ranges::upper_bound(all, size, {}, &MicrobatchCosts::microbatch),
               std::move(result->costs));
    return true;
  }

  /// Measures CUDA graphs at the smallest size, the most launch-bound one, if that takes no more
  /// than a step.
  void measure_replays(Subject& subject) {
    const MicrobatchCosts& first = profile_.microbatches.front();
    const WorkSeconds pass = first.pass();
    if (!worth_capturing(pass.host_s, pass.longer_s())) return;
    if (first.microbatch * kReplayPasses > profile_.job.global_batch) return;
    tell("CUDA graphs", 0.96);
    communicator_.barrier();
    Replays replays = profiler::measure_replays(subject, first.microbatch);
    device_.give_back_memory();
    if (largest_over_ranks(communicator_, replays.times ? 0 : 1) > 0) {
      warn(fmt::format("steps are predicted without CUDA graphs, which could not be measured: {}",
                       replays.times ? "another rank failed" : replays.why_not));
      return;
    }
    mean_over_ranks(communicator_, *replays.times);
    scale_hosts(*replays.times, host_scale_);
    profile_.replays = {first.microbatch, *replays.times};
  }

  /// Will this size fit into the machine's memory?
  bool fits(int64_t size) {
    const int sharing = gpu() ? request_.ranks_per_device : communicator_.size();
    const double needed =
        largest_over_ranks(communicator_, budget_.bytes(size)) * sharing * (gpu() ? kGpuMargin : 1);
    const double available = from_rank(communicator_, 0, double(device_.available_bytes()));
    if (needed <= available) return true;
    warn(fmt::format("microbatch {} is not measured: it would take {} and {} are free", size,
                     format_bytes(needed), format_bytes(available)));
    return false;
  }

  /// Messages are measured up to what the largest microbatch sends over any cut of the plan.
  int64_t largest_message(const Subject& subject) const {
    const int64_t crossing = subject.largest_crossing(profile_.microbatches.back().microbatch);
    return std::clamp(crossing, int64_t{1} << 20, int64_t{16} << 20);
  }

  const Request& request_;
  Communicator& communicator_;
  const Emit& emit_;
  ComputeDevice& device_;
  Profile profile_;
  std::vector<int64_t> sizes_, left_out_;
  std::vector<Probe> probes_;
  Budget budget_{0};
  double host_scale_ = 1;
  int64_t too_large_ =
      std::numeric_limits<int64_t>::max();  // a microbatch for which there is no memory
};

}  // namespace

void run(const Request& request, Communicator& communicator, const Emit& emit) {
  Profiler(request, communicator, emit).run();
}

}  // namespace penstock::profiler
