// A whole `.pt2`, zip and all, as the reader has it from a file: graph, weights, and what slicing
// makes of the graph. pt2_mutator.cpp makes inputs that get beyond the zip's checksums.
#include "graph/pt2/pt2.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "graph/analysis/analysis.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/operators/facts.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

namespace {

/// A file in memory, with a path.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("model.pt2", 0)) {
    require(descriptor_ >= 0 && write(descriptor_, data, size) == static_cast<ssize_t>(size),
            "there is memory for a file");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void check_graph(const Graph& graph) {
  std::vector<bool> there(graph.values.size(), false);
  for (size_t v = 0; v < graph.values.size(); ++v)
    there[v] = graph.values[v].kind != Value::Kind::intermediate;
  for (const Operator& op : graph.operators) {
    require(!is_mutating(op), "no operator writes to its input");
    for (const ValueId v : op.reads())
      require(there.at(v), "a value is computed before it is read");
    for (const ValueId v : op.outputs)
      if (v >= 0) there.at(v) = true;
  }
  for (const BufferUpdate& update : graph.updates) {
    require(there.at(update.value), "an update is computed");
    graph.tensors.at(update.tensor);
  }
  for (const Output& output : graph.outputs)
    if (const auto* tensor = std::get_if<TensorRef>(&output.value))
      require(there.at(tensor->value), "an output is computed");
}

/// Tensors may be expanded views: what a file of some kilobytes holds may be any size.
void read_weights(const Graph& graph, const std::string& path) {
  constexpr int64_t enough = 1 << 16;
  const auto file = accepted(path, [&] { return std::make_unique<WeightFile>(path); });
  if (!file) return;
  for (const StoredTensor& tensor : graph.tensors) {
    accepted("", [&] {
      if (tensor.bytes() > enough) return false;
      std::vector<std::byte> values(static_cast<size_t>(tensor.bytes()));
      (*file)->read(tensor, values);
      return true;
    });
  }
}

/// Units, and two stages; sizes may not fit into 64 bits.
void slice_graph(const Graph& graph) {
  const auto analysis = accepted("", [&] { return analyse(graph); });
  if (!analysis || graph.operators.empty()) return;
  accepted("", [&] { return units(graph, *analysis); });
  const auto middle = static_cast<OperatorId>(graph.operators.size() / 2);
  if (middle == 0) return;
  accepted("", [&] { return slice(graph, *analysis, interval_stages(graph, {0, middle}), 2); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  const std::string path = file.path();
  const auto graph = accepted("", [&] { return read_pt2(path); });
  if (!graph) return 0;
  check_graph(*graph);
  read_weights(*graph, path);
  slice_graph(*graph);
  return 0;
}
