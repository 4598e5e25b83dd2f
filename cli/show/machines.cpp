// Clusters and devices.
#include <fmt/format.h>

#include <set>

#include "base/quantity.hpp"
#include "cli/show/lines.hpp"
#include "cli/show/show_text.hpp"
#include "estimate/device.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::cli {

namespace {

std::string rate(double bytes_per_second) {
  return bytes_per_second > 0 ? format_bytes_per_second(bytes_per_second) : "no limit";
}

std::string memory_of(int64_t bytes) { return bytes > 0 ? format_bytes(bytes) : "no limit"; }

std::string link_of(double latency_s, double bandwidth) {
  return format_seconds(latency_s) + ", " + rate(bandwidth);
}

std::string node_table(const Cluster& cluster, ReportStyle style) {
  Table table({"nodes", "devices each", "<device", "memory", "speed", "<link", "bus", "cards",
               "each card"});
  for (const NodeKind& node : cluster.nodes) {
    table.row({fmt::to_string(node.count), fmt::to_string(node.devices),
               node.device.empty() ? "-" : node.device, memory_of(node.memory_bytes),
               fmt::format("{:.3g}", node.speed), link_of(node.latency_s, node.bandwidth),
               node.bus_bandwidth > 0 ? rate(node.bus_bandwidth) : "-", fmt::to_string(node.cards),
               rate(node.card_bandwidth)});
  }
  return "\n" + table.text(style);
}

std::string send_mode_name(SendMode mode) {
  return mode == SendMode::eager ? "eager" : mode == SendMode::posted ? "posted" : "rendezvous";
}

std::string all_reduce_of(const AllReduce& sums) {
  const char* algorithm = sums.algorithm == AllReduce::Algorithm::ring   ? "ring"
                          : sums.algorithm == AllReduce::Algorithm::tree ? "tree"
                                                                         : "ring or tree";
  return fmt::format("{}, {}", algorithm, text_of(sums.sums));
}

std::string flops(const std::map<DType, double>& figures, DType dtype) {
  const auto found = figures.find(dtype);
  return found == figures.end() ? "-" : format_count(found->second);
}

std::string flops_table(const DeviceSpec& device, ReportStyle style) {
  std::set<DType> types;
  for (const auto* figures : {&device.matrix_flops, &device.vector_flops})
    for (const auto& [dtype, value] : *figures) types.insert(dtype);
  Table table({"<FLOPs per second", "matrix", "vector"});
  for (const DType dtype : types) {
    table.row({std::string(name(dtype)), flops(device.matrix_flops, dtype),
               flops(device.vector_flops, dtype)});
  }
  return "\n" + table.text(style);
}

std::string efficiency_table(const DeviceSpec& device, ReportStyle style) {
  Table table({"<operators", "efficiency"});
  for (size_t kind = 0; kind < operator_classes; ++kind) {
    table.row({std::string(name(static_cast<OperatorClass>(kind))),
               fmt::format("{:.3g}", device.efficiency[kind])});
  }
  return "\n" + table.text(style);
}

}  // namespace

std::string cluster_text(const std::string& path, ReportStyle style) {
  const Cluster cluster = read_cluster(path);
  const Link& link = cluster.link;
  Lines lines(style.columns);
  lines.add("ranks", fmt::to_string(cluster.ranks));
  if (cluster.nodes.empty()) {
    lines.add("memory", memory_of(cluster.memory_bytes) + " per rank");
    lines.add("link", link_of(link.latency_s, link.bandwidth) + ", between any two");
  } else {
    lines.add("between", fmt::format("nodes: {}{}", format_seconds(cluster.between.latency_s),
                                     cluster.between.switch_bandwidth > 0
                                         ? ", switch " + rate(cluster.between.switch_bandwidth)
                                         : ""));
  }
  lines.add("send", send_mode_name(link.mode));
  lines.add("all-reduce", all_reduce_of(cluster.all_reduce));
  return fmt::format("{}\n\n{}{}", path, lines.text(),
                     cluster.nodes.empty() ? "" : node_table(cluster, style));
}

std::string device_text(const std::string& path, ReportStyle style) {
  const DeviceSpec device = read_device_spec(path);
  Lines lines(style.columns);
  lines.add("device", fmt::format("{} ({})", device.name, device.kind));
  lines.add("memory", fmt::format("{}, {} of it reserved; {}", format_bytes(device.memory_bytes),
                                  format_bytes(device.reserved_bytes), rate(device.bandwidth)));
  lines.add("launch",
            fmt::format("{} of each operator, {} of each action", format_seconds(device.launch_s),
                        format_seconds(device.action_s)));
  for (const LinkCost& link : device.links)
    lines.add("link", link.kind + ": " + link_of(link.latency_s, link.bandwidth));
  return fmt::format("{}\n\n{}{}{}", path, lines.text(), flops_table(device, style),
                     efficiency_table(device, style));
}

}  // namespace penstock::cli
