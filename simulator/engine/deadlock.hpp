// The report on a program that cannot finish: who waits where, and for what.
#pragma once

#include <string>

#include "simulator/engine/engine.hpp"

namespace penstock {

/// One line per waiting rank: `rank 0 waits at 0B0 for 1SEND_B0 of rank 1, which comes …`.
std::string deadlock_report(const Program& program, const CompiledProgram& compiled,
                            const EngineResult& result);

}  // namespace penstock
