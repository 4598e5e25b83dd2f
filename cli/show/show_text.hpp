// The texts of `penstock show`, one for each kind of file. Each ends with a newline.
#pragma once

#include <string>

#include "cli/report/table.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock::cli {

/// Sizes, inputs and outputs, pipe_split() calls, and the module tree; with the measured times of
/// `costs`, which are of this model, unless it is null.
std::string model_text(const Graph& model, const MicrobatchCosts* costs, ReportStyle style);

/// `1f1b on 2 ranks x 2 replicas, 4 microbatches of 4 samples`
std::string layout_line(const Plan& plan);
/// Each stage with its modules, parameters and FLOPs, with times and memory unless `costs` is null;
/// what crosses every cut in both directions; parameters of several stages; the prediction.
std::string plan_text(const std::string& path, const Plan& plan, const Graph& model,
                      const Slicing& slicing, const Costs* costs, ReportStyle style);

/// One stage as torch.fx prints a GraphModule: its inputs and where they come from, parameters and
/// buffers, operators under the modules that call them, outputs and who takes them.
std::string stage_text(const std::string& path, const Plan& plan, const Graph& model,
                       const Slicing& slicing, int stage);

/// The profile as a table of layers (YAML), one for each unit of the model, which may recompute.
/// Left out are what actions, the optimizer and links take, and what times vary by.
std::string profile_layers(const Profile& profile, const Graph& model);

/// How gradients are summed: `in buckets of 23.8 MiB, beside the backwards that are left`.
std::string text_of(const GradientSums& sums);

// These read the file, and throw InputError as its reader does.

/// The job's model, data, optimizer and batch; whether model and data are there.
std::string job_text(const std::string& path, ReportStyle style);
/// The costs of each layer at the largest microbatch size, equal ones in a row together.
std::string layers_text(const std::string& path, ReportStyle style);
/// Nodes or ranks with memory and links, how gradients are summed.
std::string cluster_text(const std::string& path, ReportStyle style);
/// The figures, the efficiency of each class of operators, the links.
std::string device_text(const std::string& path, ReportStyle style);
/// The steps that are saved in the folder, and of the last (or of `step-N` itself) what was trained
/// and whether all its files are there. Hashes are not compared: --resume does.
std::string checkpoint_text(const std::string& folder, ReportStyle style);
/// Title, ranks, step, and the time in each kind of action.
std::string trace_text(const std::string& path, ReportStyle style);
/// Ranks, stages and microbatches.
std::string program_text(const std::string& path, ReportStyle style);
/// Name, type, shape and bytes of each tensor.
std::string safetensors_text(const std::string& path, ReportStyle style);

}  // namespace penstock::cli
