// Paths that pass all that a rank does.
//
// Between two actions of a rank, before its first and behind its last one, such a path also passes
// what others have to do in the meantime: the ramps, and in looped-bfs the way of the last
// microbatch from the rank's last forward through the stages behind and back. A rank takes as long
// as its own work and all of that, whatever the others have.
#pragma once

#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock {

/// For each rank the weights of the longest path that passes all of its actions, each stage taking
/// the least that it can; where another one passes all but W, that as well.
std::vector<std::vector<Times>> rank_paths(const ProgramPaths& paths);
/// For each rank all of its own actions alone, of programs that are too long to follow.
std::vector<std::vector<Times>> own_paths(const SplitTimes& times, int microbatches);

}  // namespace penstock
