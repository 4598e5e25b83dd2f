// Which tensor of a state dictionary is which of a model.
#pragma once

#include <map>
#include <string>

#include "graph/graph.hpp"
#include "pipeline/weights/state_files.hpp"

namespace penstock {

struct MatchedTensor {
  const SafetensorsFile* file;  // of the StateFiles
  std::string name;             // there
};

struct MatchedWeights {
  std::map<int, MatchedTensor> tensors;  // by index in Graph::tensors
  std::string renaming;  // a line about a prefix that was added or left out; empty where none was
};

/// Finds every parameter and persistent buffer by one of its names: as the model has it, or with a
/// prefix that all of the files' names have and the model's lack, or the other way round. Floating
/// types may differ. Throws one InputError that names what is missing, unexpected, or of another
/// shape or kind of type, up to eight of each.
MatchedWeights match_weights(const StateFiles& files, const Graph& model);

}  // namespace penstock
