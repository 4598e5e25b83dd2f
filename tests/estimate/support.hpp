// A device with round figures, and small graphs to estimate on it.
#pragma once

#include "estimate/device.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock::testing {

/// 1,000 bytes/s, 1e4 FLOP/s in matrix products and 500 elsewhere, a quarter of a second a launch.
/// Efficiency 1 but for matrix products (1/2) and norms (1/4).
inline const std::string round_device =
    "penstock: device\nname: Round\nkind: cuda\nmemory: 1GB\nbandwidth: 1000B/s\n"
    "matrix: {float32: 1e4}\nvector: {float32: 500}\nlaunch: 250ms\naction: 1s\n"
    "efficiency: {gemm: 0.5, attention: 1, convolution: 1, normalisation: 0.25, elementwise: 1,\n"
    "             reduction: 1, lookup: 1, optimizer: 0.5}\n"
    "links:\n  - {kind: wire, latency: 1ms, bandwidth: 1MB/s}\n";

inline DeviceSpec round_spec() { return parse_device_spec(round_device, "round.yaml"); }

/// x [batch, 4] -> first [batch, 8] -> second [batch, 4].
inline GraphBuilder two_linears() {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w1 = b.parameter("w1", {8, 4}), b1 = b.parameter("b1", {8});
  const auto h = b.op("aten::linear", {x, w1, b1}, {batch, 8}, {"first"});
  b.named({"input", "weight", "bias"});
  const auto w2 = b.parameter("w2", {4, 8});
  b.output(b.op("aten::linear", {h, w2}, {batch, 4}, {"second"}));
  b.named({"input", "weight"});
  return b;
}

}  // namespace penstock::testing
