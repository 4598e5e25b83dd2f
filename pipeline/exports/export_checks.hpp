// Refusals of plans that several tools cannot express.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/exports/exports.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock {

/// The plan's file, for messages.
std::string export_place(const Plan& plan);

/// The plan's schedule, one of those that the tool has a name for. Throws InputError for others.
const Schedule& require_schedule(const Plan& plan, std::string_view tool,
                                 std::string_view Schedule::ToolNames::*name_there);

/// Throws InputError where a stage uses values of another than the one before it.
void require_neighbours(const ExportSource& source, std::string_view tool);

/// Throws InputError unless each stage hands one value to the next stage, and nothing to others.
void require_one_value(const ExportSource& source, std::string_view tool);

/// Throws InputError where a stage hands on a value that is not of floating point: torch's stages,
/// and what is built on them, want a gradient for each.
void require_floating_point(const ExportSource& source, std::string_view tool);

/// Throws InputError where stages share a trainable parameter.
void require_own_parameters(const ExportSource& source, std::string_view tool);
/// No parameter is transmitted (sharing.hpp): with the tool each stage updates a copy.
void require_replicated(const ExportSource& source, std::string_view tool);

/// Whether all stages recompute, or none. Throws InputError where some do.
bool all_recompute(const Plan& plan, std::string_view tool);

}  // namespace penstock
