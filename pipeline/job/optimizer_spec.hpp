// The optimizer of a job, its schedule, and what differs from parameter to parameter.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

class YamlMap;

/// Parameters with settings of their own; what is not given is the optimizer's.
struct ParameterGroup {
  std::vector<std::string> parameters;  // patterns: pipeline/job/parameters.hpp
  std::optional<double> learning_rate, weight_decay;
  bool operator==(const ParameterGroup&) const = default;
};

struct OptimizerSpec {
  enum class Kind { sgd, adamw };
  enum class Decay { constant, linear, cosine };
  Kind kind = Kind::sgd;
  double learning_rate = 1e-3;
  double momentum = 0;                                // sgd
  double weight_decay = 0;                            // adamw: 0.01 unless given, as in PyTorch
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adamw
  int64_t warmup_steps = 0;
  Decay decay = Decay::constant;          // of the learning rate, after the warm-up
  double final_learning_rate = 0;         // where it decays to
  double clip_norm = 0;                   // of all gradients together; 0: they are not clipped
  bool no_decay_of_norms_biases = false;  // no weight decay below two dimensions
  std::vector<ParameterGroup> groups;     // the first that has a parameter counts
  std::vector<std::string> frozen;        // patterns
  /// Elements of state per parameter element: 0, 1 (momentum) or 2 (adamw).
  int state_per_parameter() const;
  bool operator==(const OptimizerSpec&) const = default;
};

/// The factor of every group's learning rate in a step, counted from 0, of `steps`:
/// step / warmup_steps up to the warm-up's end, then 1, or from 1 to final_learning_rate /
/// learning_rate along a line or half a cosine, where it stays after the last step. It is what
/// Hugging Face's get_constant_, get_linear_ and get_cosine_schedule_with_warmup give, and
/// get_cosine_with_min_lr_schedule_with_warmup; the first step of a warm-up changes nothing.
double learning_rate_factor(const OptimizerSpec& spec, int64_t step, int64_t steps);

/// The `optimizer` of a job. Throws InputError.
OptimizerSpec parse_optimizer(YamlMap map);
/// The same keys; those added to a first form of the file only where they are used.
nlohmann::ordered_json optimizer_keys(const OptimizerSpec& spec);

}  // namespace penstock
