// Tables of layers: what is accepted becomes a graph and a profile of it, and is written as what
// reads back the same.
#include "pipeline/layers/layer_model.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* file = "/penstock/layers.yaml";
  const auto table =
      accepted(file, [&] { return parse_layers(std::string(text_of(data, size)), file); });
  if (!table) return 0;
  const Graph graph = layer_graph(*table);
  for (const MicrobatchCosts& costs : layer_profile(*table).microbatches)
    require(costs.operators.size() == graph.operators.size(), "each layer has costs");
  LayerTable again = parse_layers(to_yaml(*table), file);
  again.sha256 = table->sha256;
  require(again == *table, "a table is written as what reads back the same");
  return 0;
}
