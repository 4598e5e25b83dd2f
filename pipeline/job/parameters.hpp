// The parameters of a job's model: which are trained, with which settings, and how many
// bytes that takes.
//
// A pattern is a parameter's name (of a tied one, any of its names), a module's (all under it), or
// either with `*` and `?` for letters and dots: `transformer.h.0`, `*.bias`.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "graph/graph.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The job's model as it is trained: read_pt2, and what the job freezes requires no gradient; of a
/// job that is forward_only as it is used, which is for_inference. Throws InputError, also for a
/// pattern that no parameter has (suggesting the nearest name), for
/// `precision: bf16` with a model that is not of that type, and for `loss: output` where the first
/// output is no scalar.
Graph read_model(const Job& job);
/// The part of it after read_pt2.
void apply_job(const Job& job, Graph& model);
/// In evaluation mode, with nothing to train. Throws InputError where it cannot be evaluated.
Graph for_inference(Graph model);

struct ParameterSettings {
  double learning_rate = 0, weight_decay = 0;
};
/// Settings of each trainable tensor, by index in Graph::tensors. Throws as read_model.
std::map<int, ParameterSettings> parameter_settings(const OptimizerSpec& spec, const Graph& model);

/// Its master copy and gradient are float32 where the parameter itself is bfloat16.
bool has_master(const Job& job, const StoredTensor& tensor);
/// Bytes of the gradient that a step sums up; 0 for what is not trained.
int64_t gradient_bytes(const Job& job, const StoredTensor& tensor);
/// Bytes of gradient, master copy and optimizer state; 0 for what is not trained.
int64_t training_bytes(const Job& job, const StoredTensor& tensor);

/// The most copies of its state that a rank of a run that survives has in memory: its two latest,
/// and one that a checkpoint is being written from.
inline constexpr int64_t most_snapshots = 3;
/// The buffers that training changes, by index in Graph::tensors.
std::set<int> updated_buffers(const Graph& model);
/// Bytes of a tensor in one of these: what training changes, and its optimizer state where this
/// rank steps it.
int64_t snapshot_bytes(const Job& job, const StoredTensor& tensor, bool updated, bool stepped);

}  // namespace penstock
