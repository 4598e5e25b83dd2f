#include "estimate/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "estimate/memory.hpp"
#include "estimate/sizes.hpp"
#include "estimate/work.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/sharding/group_graphs.hpp"

namespace penstock {

namespace {

Measured estimated(double seconds) { return {.mean_s = seconds, .median_s = seconds}; }

ActionTimes times_of(const DeviceSpec& device, const OperatorWork& work) {
  const double input_s = seconds(device, work.input), weight_s = seconds(device, work.weight);
  return {estimated(seconds(device, work.forward)), estimated(input_s + weight_s),
          estimated(input_s), estimated(weight_s)};
}

void add(Measured& sum, const Measured& part) {
  sum.mean_s += part.mean_s;
  sum.median_s += part.median_s;
}

void add(ActionTimes& sum, const ActionTimes& part) {
  add(sum.forward, part.forward);
  add(sum.backward, part.backward);
  add(sum.backward_input, part.backward_input);
  add(sum.backward_weight, part.backward_weight);
}

class Estimator {
 public:
  Estimator(const Graph& graph, const Job& job, const DeviceSpec& device)
      : model_(graph), job_(job), device_(device), units_(units(graph, model_.analysis())) {}

  Profile run() {
    Profile profile;
    profile.job = job_;
    profile.model_sha256 = model_.graph().sha256;
    describe_device(profile.device);
    profile.base_memory_bytes = device_.reserved_bytes;
    profile.action_overhead_s = device_.action_s;
    profile.accumulate_s_per_byte = per_byte_s(OperatorClass::elementwise, accumulate_traffic);
    profile.zero_s_per_byte = per_byte_s(OperatorClass::elementwise, zero_traffic);
    profile.optimizer_s_per_byte = per_byte_s(OperatorClass::optimizer, optimizer_traffic(job_));
    profile.links = device_.links;
    profile.microbatches = sizes();
    return profile;
  }

  /// Does every unit alone, with its state?
  bool fits(const MicrobatchCosts& costs) const {
    return largest_unit(costs).second <= device_.memory_bytes;
  }

  MicrobatchCosts costs(int64_t microbatch) const {
    MicrobatchCosts costs;
    costs.microbatch = microbatch;
    const EstimatedMemory memory =
        memory_of(model_, job_.loss.kind, microbatch, cuda(), job_.precision == Precision::bf16);
    for (OperatorId id = 0; id < model_.operators(); ++id)
      costs.operators.push_back(operator_cost(id, microbatch, memory));
    add_loss(costs);
    for (const Unit& unit : units_) {
      UnitCost& cost = costs.units.emplace_back();
      cost.label = unit.label, cost.begin = unit.begin, cost.end = unit.end;
      for (int id = unit.begin; id < unit.end; ++id)
        add(cost.times, costs.operators[static_cast<size_t>(id)].times);
      cost.held = held_bytes_of(model_, unit, memory.held, microbatch);
    }
    return costs;
  }

 private:
  bool cuda() const { return device_.kind == "cuda"; }

  double per_byte_s(OperatorClass kind, double traffic) const {
    return traffic / (device_.bandwidth * device_.efficiency[static_cast<size_t>(kind)]);
  }

  void describe_device(DeviceInfo& info) const {
    info.kind = device_.kind;
    info.name = device_.name;
    info.memory_bytes = device_.memory_bytes;
    info.details["source"] = "estimate";
    for (int kind = 0; kind < operator_classes; ++kind) {
      info.details[fmt::format("efficiency.{}", name(static_cast<OperatorClass>(kind)))] =
          fmt::format("{:.4g}", device_.efficiency[static_cast<size_t>(kind)]);
    }
    info.details["launch_s"] = fmt::format("{:.4g}", device_.launch_s);
  }

  OperatorCost operator_cost(OperatorId id, int64_t microbatch,
                             const EstimatedMemory& memory) const {
    const Operator& op = model_.op(id);
    return {.name = op.name,
            .target = full_name(op),
            .module = op.modules.empty() ? "" : op.modules.back(),
            .flops = forward_flops(model_.graph(), op, microbatch),
            .bytes = forward_bytes(model_.graph(), op, microbatch),
            .times = times_of(device_, work_of(model_, op, microbatch, cuda())),
            .held = memory.held[static_cast<size_t>(id)],
            .values = memory.values[static_cast<size_t>(id)]};
  }

  /// The loss; its backward is part of the operator that makes the model's first output.
  void add_loss(MicrobatchCosts& costs) const {
    const ValueId input = loss_input(model_);
    const ActionTimes times =
        times_of(device_, work_of_loss(model_, job_.loss.kind, costs.microbatch));
    costs.loss_forward = times.forward;
    const OperatorId producer = input < 0 ? -1 : model_.value(input).producer;
    if (producer < 0) return;
    ActionTimes& sum = costs.operators[static_cast<size_t>(producer)].times;
    add(sum.backward, times.backward);
    add(sum.backward_input, times.backward_input);
  }

  /// Ascending; larger sizes are not tried once one does not fit.
  std::vector<MicrobatchCosts> sizes() const {
    std::vector<MicrobatchCosts> result;
    for (const int64_t size : divisors_allowed(model_.graph(), job_.global_batch, job_.model)) {
      MicrobatchCosts costs = this->costs(size);
      if (!fits(costs)) break;
      result.push_back(std::move(costs));
    }
    if (result.empty()) refuse();
    return result;
  }

  /// The unit that needs most memory when it is alone on a device, and what it needs.
  std::pair<size_t, int64_t> largest_unit(const MicrobatchCosts& costs) const {
    std::pair<size_t, int64_t> largest{0, 0};
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      const HeldBytes& held = costs.units[unit].held;
      const int64_t bytes = device_.reserved_bytes + state_bytes(units_[unit]) +
                            held.forward.then(held.backward).peak;
      if (bytes > largest.second) largest = {unit, bytes};
    }
    return largest;
  }

  /// Parameters with gradients and optimizer state, and buffers.
  int64_t state_bytes(const Unit& unit) const {
    std::set<int> tensors;
    for (OperatorId id = unit.begin; id < unit.end; ++id)
      for (const ValueId read : model_.op(id).reads())
        if (model_.value(read).kind == Value::Kind::tensor)
          tensors.insert(model_.value(read).tensor);
    int64_t sum = 0;
    for (const int index : tensors) {
      const StoredTensor& tensor = model_.graph().tensors[static_cast<size_t>(index)];
      sum += tensor.bytes() + training_bytes(job_, tensor);
    }
    return sum;
  }

  [[noreturn]] void refuse() const {
    const int64_t size = divisors_allowed(model_.graph(), job_.global_batch, job_.model).front();
    const auto [number, bytes] = largest_unit(costs(size));
    const std::string& unit = units_[number].label;
    throw InputError(
        model_.graph().path,
        fmt::format("`{}` alone needs {} for a microbatch of {}, but {} has {}",
                    unit.empty() ? "the first unit" : unit, format_bytes(bytes), size, device_.name,
                    format_bytes(device_.memory_bytes)),
        "Choose a device with more memory, or make the model's largest module smaller.");
  }

  const EstimateModel model_;
  const Job& job_;
  const DeviceSpec& device_;
  const std::vector<Unit> units_;
};

/// Larger sizes are not tried once one does not fit.
GroupCosts group_costs(const GroupGraph& group, const Job& job, const DeviceSpec& device) {
  const Estimator estimator(group.local.graph, job, device);
  GroupCosts result{.parts = group.parts, .sharding = group.sharding, .microbatches = {}};
  for (const int64_t size : group.sizes) {
    MicrobatchCosts costs = estimator.costs(size);
    if (!estimator.fits(costs)) break;
    result.microbatches.push_back(std::move(costs));
  }
  return result;
}

}  // namespace

Profile estimate(const Graph& graph, const Job& job, const DeviceSpec& device) {
  return Estimator(graph, job, device).run();
}

std::vector<GroupCosts> estimate_groups(const Graph& graph, const Job& job,
                                        const DeviceSpec& device, const std::vector<int>& parts,
                                        const sharding::Pins& asked) {
  const auto sizes = divisors_allowed(graph, job.global_batch, job.model);
  std::vector<GroupCosts> groups;
  for (const GroupGraph& group : group_graphs(graph, job.loss, asked, sizes, parts)) {
    GroupCosts costs = group_costs(group, job, device);
    if (!costs.microbatches.empty()) groups.push_back(std::move(costs));
  }
  return groups;
}

std::string estimate_note(const Profile& profile) {
  const auto& details = profile.device.details;
  const auto source = details.find("source");
  if (source == details.end() || source->second != "estimate") return "";
  const auto fit = details.find("fit.residual");
  const std::string figures = fmt::format("estimated from the figures of {}", profile.device.name);
  if (fit == details.end()) return figures + ", not measured";
  return fmt::format("{}; the fit to what was measured on it is off by {:.1f} %", figures,
                     100 * std::strtod(fit->second.c_str(), nullptr));
}

}  // namespace penstock
