// Other planners' inputs: what is read, and that every mistake is told with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "bench/planner/importers/device_placement.hpp"
#include "bench/planner/importers/layer_graph.hpp"
#include "bench/planner/importers/piper.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string first_layer =
    "node1 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=3.000, "
    "activation_size=[4096.0; 128.0], parameter_size=6912.000";
const std::string second_layer =
    "node2 -- ReLU -- forward_compute_time=0.5, backward_compute_time=0, activation_size=10, "
    "parameter_size=0 -- stage_id=1";
const std::string layers = first_layer + "\n" + second_layer + "\n";

std::string layer_error(const std::string& text) {
  return input_error([&] { parse_layer_graph(text, "g.txt"); });
}

TEST(LayerGraph, ReadsTimesInSecondsAndAddsUpLists) {
  for (const char* indent : {"\t", "  ", "\t\t"}) {
    const LayerGraph graph = parse_layer_graph(layers + indent + "node1 -- node2\r\n\n", "g.txt");
    ASSERT_EQ(graph.layers.size(), 2u);
    EXPECT_EQ(graph.layers[0].name, "node1");
    EXPECT_EQ(graph.layers[0].description, "Conv2d(3, 64)");
    EXPECT_DOUBLE_EQ(graph.layers[0].forward_s, 1.5e-3);
    EXPECT_DOUBLE_EQ(graph.layers[0].backward_s, 3e-3);
    EXPECT_EQ(graph.layers[0].activation_bytes, 4224);
    EXPECT_EQ(graph.layers[0].parameter_bytes, 6912);
    EXPECT_EQ(graph.dag.nodes, 2);
    EXPECT_THAT(graph.dag.edges, ElementsAre(std::pair(0, 1)));
  }
}

TEST(LayerGraph, TellsEveryMistakeWithItsLine) {
  EXPECT_THAT(layer_error(""), AllOf(HasSubstr("g.txt"), HasSubstr("no layers")));
  EXPECT_THAT(layer_error(layers + "\tnode1 -- node9\n"),
              AllOf(HasSubstr("g.txt:3"), HasSubstr("no node node9"), HasSubstr("Did you mean")));
  EXPECT_THAT(layer_error(layers + "\tnode1\n"), AllOf(HasSubstr("g.txt:3"), HasSubstr("no edge")));
  EXPECT_THAT(layer_error(layers + "\tnode1 -- node2\n\tnode1 -- node2\n"),
              AllOf(HasSubstr("g.txt:4"), HasSubstr("twice")));
  EXPECT_THAT(layer_error(layers + first_layer), AllOf(HasSubstr("g.txt:3"), HasSubstr("second")));
  EXPECT_THAT(layer_error(layers + "\tnode1 -- node2\n\tnode2 -- node1\n"),
              AllOf(HasSubstr("circle through node1, node2"), HasSubstr("Remove an edge")));
  EXPECT_THAT(layer_error(layers + "\tnode1 -- node1\n"), HasSubstr("circle through node1"));
  EXPECT_THAT(layer_error("node1 -- Conv2d"), AllOf(HasSubstr("g.txt:1"), HasSubstr("2 parts")));
  EXPECT_THAT(layer_error("node1 -- a -- forward_compute_time=1"), HasSubstr("1 costs"));
}

TEST(LayerGraph, TellsWrongNumbers) {
  const auto with = [](const char* from, const char* to) {
    std::string text = layers;
    text.replace(text.find(from), std::string(from).size(), to);
    return layer_error(text);
  };
  EXPECT_THAT(with("1.5", "fast"),
              AllOf(HasSubstr("g.txt:1"), HasSubstr("forward_compute_time=fast")));
  EXPECT_THAT(with("1.5", "-1.5"), HasSubstr("negative"));
  EXPECT_THAT(with("1.5", "nan"), HasSubstr("not a number"));
  EXPECT_THAT(with("1.5", "1e999"), HasSubstr("not a number"));
  EXPECT_THAT(with("128.0]", "128.0"), HasSubstr("does not end"));
  EXPECT_THAT(with("; 128.0", "; "), HasSubstr("not a number"));
  EXPECT_THAT(with("parameter_size", "parameters"), HasSubstr("parameter_size= is expected"));
  EXPECT_THAT(with("stage_id=1", "stage_id=x"), AllOf(HasSubstr("g.txt:2"), HasSubstr("stage_id")));
}

TEST(LayerGraph, DamagedFilesAreReadOrRefused) {
  for (const std::string& text : damaged(layers + "\tnode1 -- node2\n", 2000)) {
    try {
      const LayerGraph graph = parse_layer_graph(text, "g.txt");
      EXPECT_EQ(graph.layers.size(), static_cast<size_t>(graph.dag.nodes));
    } catch (const InputError&) {
    }
  }
}

nlohmann::json placement() {
  return nlohmann::json::parse(R"({"maxFPGAs": 6, "maxCPUs": 1, "maxSizePerFPGA": 1e9, "nodes": [
    {"id": 7, "supportedOnFpga": 1, "cpuLatency": 10, "fpgaLatency": 1.5, "isBackwardNode": 0,
     "colorClass": 3, "size": 5, "name": "a"},
    {"id": 9, "supportedOnFpga": false, "cpuLatency": 20, "fpgaLatency": 2, "isBackwardNode": true,
     "colorClass": 3}],
   "edges": [{"sourceId": 7, "destId": 9, "cost": 0.25, "size": 100}]})");
}

std::string placement_error(const nlohmann::json& document) {
  return input_error([&] { parse_placement_graph(document.dump(), "p.json"); });
}

TEST(PlacementGraph, ReadsNodesInSecondsAndTheCostOfTheirOutput) {
  const PlacementGraph graph = parse_placement_graph(placement().dump(), "p.json");
  EXPECT_EQ(graph.accelerators, 6);
  EXPECT_EQ(graph.cpus, 1);
  EXPECT_EQ(graph.accelerator_bytes, 1e9);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_DOUBLE_EQ(graph.nodes[0].cpu_s, 10e-3);
  EXPECT_DOUBLE_EQ(graph.nodes[0].accelerator_s, 1.5e-3);
  EXPECT_DOUBLE_EQ(graph.nodes[0].output_s, 0.25e-3);
  EXPECT_EQ(graph.nodes[0].bytes, 5);
  EXPECT_TRUE(graph.nodes[0].supported);
  EXPECT_FALSE(graph.nodes[1].supported);
  EXPECT_TRUE(graph.nodes[1].backward);
  EXPECT_EQ(graph.nodes[0].colour, graph.nodes[1].colour);
  EXPECT_THAT(graph.dag.edges, ElementsAre(std::pair(0, 1)));
}

TEST(PlacementGraph, TellsEveryMistakeWithItsPointer) {
  const auto changed = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json document = placement();
    document[nlohmann::json::json_pointer(pointer)] = value;
    return placement_error(document);
  };
  EXPECT_THAT(changed("/maxFPGAs", -1), AllOf(HasSubstr("p.json: /maxFPGAs"), HasSubstr("range")));
  EXPECT_THAT(changed("/maxFPGAs", "6"), HasSubstr("not an integer"));
  EXPECT_THAT(changed("/maxSizePerFPGA", -1.0), HasSubstr("negative"));
  EXPECT_THAT(changed("/nodes", nlohmann::json::object()), HasSubstr("not a list"));
  EXPECT_THAT(changed("/nodes/0", 5), HasSubstr("/nodes/0: 5 is not an object"));
  EXPECT_THAT(changed("/nodes/1/id", 7),
              AllOf(HasSubstr("/nodes/1/id"), HasSubstr("second node 7")));
  EXPECT_THAT(changed("/nodes/1/fpgaLatency", "x"), HasSubstr("/nodes/1/fpgaLatency"));
  EXPECT_THAT(changed("/nodes/0/isBackwardNode", 2), HasSubstr("/nodes/0/isBackwardNode"));
  EXPECT_THAT(changed("/edges/0/destId", 8),
              AllOf(HasSubstr("/edges/0/destId"), HasSubstr("no node 8")));
  EXPECT_THAT(changed("/edges/0/cost", -0.5), HasSubstr("/edges/0/cost"));
  EXPECT_THAT(changed("/edges/1", {{"sourceId", 7}, {"destId", 9}, {"cost", 0.5}}),
              AllOf(HasSubstr("/edges/1/cost"), HasSubstr("another cost")));
  EXPECT_THAT(changed("/edges/1", {{"sourceId", 9}, {"destId", 7}, {"cost", 0.5}}),
              HasSubstr("from a backward to a forward node"));
  EXPECT_THAT(changed("/edges/1", {{"sourceId", 9}, {"destId", 9}, {"cost", 0.5}}),
              HasSubstr("circle through 9"));
  for (const char* member : {"maxFPGAs", "maxCPUs", "maxSizePerFPGA", "nodes", "edges"}) {
    nlohmann::json document = placement();
    document.erase(member);
    EXPECT_THAT(placement_error(document), AllOf(HasSubstr(member), HasSubstr("missing")));
  }
  for (const char* member :
       {"id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode"}) {
    nlohmann::json document = placement();
    document["nodes"][0].erase(member);
    EXPECT_THAT(placement_error(document), AllOf(HasSubstr(member), HasSubstr("missing")));
  }
}

nlohmann::json piper() {
  return nlohmann::json::parse(R"({"maxDevices": 8, "maxMemoryPerDevice": 1e9, "bandwidth": 1e6,
   "mbsInBatch": 16, "nodes": [
    {"id": 4, "name": "a", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 1.5,
      "parameterSize": 10, "memoryUsageA": 2, "memoryUsageB": 3, "syncTimeFw": {},
      "syncTimeBw": {"2": 6}}]}},
    {"id": 2, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 2, "parameterSize": 10,
      "memoryUsageA": 2, "memoryUsageB": 3, "syncTimeFw": {"4": 7}, "syncTimeBw": {}}], "2": []}}],
   "edges": [{"sourceId": 4, "destId": 2, "communicationCost": 100}]})");
}

std::string piper_error(const nlohmann::json& document) {
  return input_error([&] { parse_piper_graph(document.dump(), "p.json"); });
}

TEST(PiperGraph, ReadsVariantsByTensorParallelDegree) {
  const PiperGraph graph = parse_piper_graph(piper().dump(), "p.json");
  EXPECT_EQ(graph.devices, 8);
  EXPECT_EQ(graph.device_bytes, 1e9);
  EXPECT_EQ(graph.bytes_per_s, 1e6);
  EXPECT_EQ(graph.batch, 16);
  ASSERT_EQ(graph.nodes.size(), 2u);
  const PiperVariant& first = graph.nodes[0].variants.at(1).at(0);
  EXPECT_EQ(first.name, "vanilla");
  EXPECT_EQ(first.time_s, 1.5);
  EXPECT_EQ(first.bytes_per_sample, 2);
  EXPECT_EQ(first.bytes, 3);
  EXPECT_EQ(first.sync_out_bytes.at(1), 6);
  EXPECT_EQ(graph.nodes[1].variants.at(1).at(0).sync_in_bytes.at(0), 7);
  EXPECT_FALSE(graph.nodes[1].variants.contains(2));  // an empty list is no way to run
  EXPECT_THAT(graph.edge_bytes, ElementsAre(100));
}

TEST(PiperGraph, TellsEveryMistakeWithItsPointer) {
  const auto changed = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json document = piper();
    document[nlohmann::json::json_pointer(pointer)] = value;
    return piper_error(document);
  };
  EXPECT_THAT(changed("/maxDevices", 0), HasSubstr("p.json: /maxDevices"));
  EXPECT_THAT(changed("/bandwidth", 0), AllOf(HasSubstr("/bandwidth"), HasSubstr("not positive")));
  EXPECT_THAT(changed("/mbsInBatch", 1.5), HasSubstr("/mbsInBatch"));
  EXPECT_THAT(changed("/nodes/1/id", 4), HasSubstr("second node 4"));
  EXPECT_THAT(changed("/nodes/0/TMPCs", nlohmann::json::object()), HasSubstr("no variants"));
  EXPECT_THAT(changed("/nodes/0/TMPCs/two", nlohmann::json::array({1})),
              HasSubstr("no tensor parallel degree"));
  EXPECT_THAT(changed("/nodes/0/TMPCs/1/0/timePerSample", -1), HasSubstr("negative"));
  EXPECT_THAT(changed("/nodes/0/TMPCs/1/0/syncTimeBw/4", 1), HasSubstr("no edge to node 4"));
  EXPECT_THAT(changed("/nodes/0/TMPCs/1/0/syncTimeBw", nlohmann::json::object()),
              HasSubstr("0 entries for 1 edges"));
  EXPECT_THAT(changed("/edges/0/sourceId", 5), HasSubstr("no node 5"));
  EXPECT_THAT(changed("/edges/1", {{"sourceId", 4}, {"destId", 2}, {"communicationCost", 1}}),
              AllOf(HasSubstr("/edges/1"), HasSubstr("twice")));
  EXPECT_THAT(changed("/edges/1", {{"sourceId", 2}, {"destId", 4}, {"communicationCost", 1}}),
              HasSubstr("circle through 4, 2"));
  for (const char* member :
       {"maxDevices", "maxMemoryPerDevice", "bandwidth", "mbsInBatch", "nodes", "edges"}) {
    nlohmann::json document = piper();
    document.erase(member);
    EXPECT_THAT(piper_error(document), AllOf(HasSubstr(member), HasSubstr("missing")));
  }
  for (const char* member : {"id", "timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB",
                             "syncTimeFw", "syncTimeBw"}) {
    nlohmann::json document = piper();
    document["nodes"][0]["TMPCs"]["1"][0].erase(member);
    EXPECT_THAT(piper_error(document), AllOf(HasSubstr(member), HasSubstr("missing")));
  }
}

TEST(PeerJson, TruncatedFilesAreRefused) {
  const std::string one = placement().dump(), other = piper().dump();
  for (size_t length = 0; length < one.size(); length += 7)
    EXPECT_THAT(input_error([&] { parse_placement_graph(one.substr(0, length), "p.json"); }),
                HasSubstr("p.json"));
  for (size_t length = 0; length < other.size(); length += 7)
    EXPECT_THAT(input_error([&] { parse_piper_graph(other.substr(0, length), "p.json"); }),
                HasSubstr("p.json"));
}

}  // namespace
}  // namespace penstock::test
