// Plans for other tools: each function makes the text of one file. What a tool's format cannot say
// is an InputError that names the stage, the value and the cure; docs/exports.md shows each format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/sharding/complete.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// A plan with what was worked out of it.
struct ExportSource {
  const Plan& plan;
  const Graph& model;
  const Analysis& analysis;
  const Slicing& slicing;
  const sharding::Completion* completion = nullptr;  // of a plan with tensor groups
};

/// JSON, the `split_spec` of torch.distributed.pipelining's `pipeline`: an object from the path of
/// each module with which a stage begins, the first stage's left out, to "BEGINNING".
std::string to_torch_split(const ExportSource& source);

/// The schedule's name in torch.distributed.pipelining (2.11); "" where it has none of that name,
/// or none that takes so few microbatches: a schedule file is needed.
std::string_view torch_schedule_name(const Plan& plan);

/// TOML, the tables [parallelism], [training] and [activation_checkpoint] of TorchTitan's job
/// config (0.2): the modules of each stage, schedule, degrees and batch sizes; how tensor groups
/// hold parameters as comments. `schedule_file` is read by TorchTitan where torch_schedule_name has
/// none.
std::string to_torchtitan(const ExportSource& source, const std::string& schedule_file);

/// Arguments of Megatron-LM on one line, for a shell: layout, sizes of the pipeline and of tensor
/// groups, layers, batch sizes, recomputation, sharded state.
std::string to_megatron(const ExportSource& source);
/// Parameters that the plan's tensor groups hold otherwise than Megatron's, and layers that hand on
/// otherwise; names or patterns, as the arguments cannot say.
std::vector<std::string> unlike_megatron(const ExportSource& source);

/// JSON for DeepSpeed's PipelineModule: `layers`, each a list of module paths and operators that
/// run one after the other; `parts`, the layer with which each stage begins, and their number at
/// the end; `activation_checkpoint_interval`; and `config`, the batch sizes of DeepSpeed's config.
std::string to_deepspeed(const ExportSource& source);

}  // namespace penstock
