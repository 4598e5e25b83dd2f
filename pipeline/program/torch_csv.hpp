// Programs as torch.distributed.pipelining's schedule CSV, of torch 2.11: a row per rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/program/lowering.hpp"
#include "pipeline/program/program.hpp"

namespace penstock {

/// The compute actions alone, torch's `compute_only`; its runtime adds the transfers, and reduces.
std::string to_torch_compute_csv(const Program& program);

/// With transfers and a REDUCE_GRAD for every stage, torch's `compute_comms`, from compute actions.
/// Throws InputError, place `place`, where values flow between stages that are not neighbours: the
/// format cannot say that.
std::string to_torch_lowered_csv(const Program& compute, const std::vector<Flow>& flows,
                                 const std::string& place);

/// A cell of torch's that says nothing to Penstock: UNSHARD and RESHARD, of parameters that are
/// sharded over replicas, and the WAITs of later versions.
bool concerns_torch_alone(std::string_view cell);

}  // namespace penstock
