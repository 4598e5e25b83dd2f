// Our engine and SimGrid give the same makespans where channels share buses, network cards and a
// switch: generated clusters under generated programs of every schedule. SimGrid's platform is made
// from the cluster's nodes, not from our routes, so who shares what is compared as well.
//
// Shared links can make a step unsteady: a flow that begins a little later changes the rates of
// others, these change when computes begin, and so the next flows; where that grows from microbatch
// to microbatch, a rounding of the last bit becomes milliseconds, in any simulator. A setting whose
// makespan, in our engine alone, moves by more than 1e-9 of itself when stages take a 1e-11th
// longer or shorter is only compared to 1 %; at most an eighth may be such. A change of that size
// is of the order of SimGrid's own precision (1e-12 s for each event). All others agree to six
// decimals and to 1e-9.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "simulator/engine/simulate.hpp"
#include "tests/simgrid/simgrid_run.hpp"
#include "tests/simulator/settings.hpp"

namespace penstock::testing {
namespace {

constexpr int clusters_per_schedule = 16;  // 144 in all

class Drawing {
 public:
  explicit Drawing(unsigned seed) : random_(seed) {}
  bool half() { return upto(2) == 1; }
  int upto(int most) { return std::uniform_int_distribution<int>(1, most)(random_); }
  double near(double value) {
    return value * std::exp(std::uniform_real_distribution<double>(-1.5, 1.5)(random_));
  }

 private:
  std::mt19937 random_;
};

/// Nodes of one kind for the setting's ranks. Whatever is shared has about half the bandwidth that
/// the setting's messages were drawn for; each kind of sharing is there in half of the clusters.
Cluster draw_cluster(const Setting& setting, Drawing& draw) {
  const double bandwidth = setting.link.bandwidth / 2;
  NodeKind node;
  node.devices = 1 + draw.upto(3);
  node.count = (setting.program.rank_count() + node.devices - 1) / node.devices;
  node.latency_s = setting.link.latency_s / 3;
  node.bandwidth = draw.near(bandwidth);
  node.bus_bandwidth = draw.half() ? draw.near(bandwidth) : 0;
  node.bus_full_duplex = draw.half();
  node.cards = draw.upto(node.devices);
  node.card_bandwidth = draw.near(bandwidth);
  node.card_full_duplex = draw.half();
  Cluster cluster{.ranks = node.count * node.devices, .nodes = {node}};
  cluster.between = {.latency_s = setting.link.latency_s,
                     .propagation_s = setting.link.propagation_s,
                     .switch_bandwidth = draw.half() ? draw.near(2 * bandwidth) : 0};
  return cluster;
}

Platform platform_of(const Cluster& cluster) {
  const NodeKind& node = cluster.nodes.at(0);
  return {.ranks_per_node = node.devices,
          .cards = node.cards,
          .inside = {node.latency_s, node.bandwidth},
          .between = {cluster.between.latency_s, 0, cluster.between.propagation_s},
          .bus = {node.bus_bandwidth, node.bus_bandwidth, !node.bus_full_duplex},
          .card = {node.card_bandwidth, node.card_bandwidth, !node.card_full_duplex},
          .switch_capacity = cluster.between.switch_bandwidth};
}

double narrowest(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

/// The time without contention: each channel has a wire as wide as its route.
Platform unshared(Platform platform) {
  platform.inside.bandwidth = narrowest(platform.inside.bandwidth, platform.bus.out);
  platform.between.bandwidth = narrowest(platform.card.out, platform.switch_capacity);
  platform.bus = platform.card = {};
  platform.switch_capacity = 0;
  return platform;
}

double ours_s(const Setting& setting, const Cluster& cluster) {
  return simulate(setting.program, setting.costs, Network(cluster),
                  {.timeline = false, .memory = false})
      .makespan_s;
}

/// How much the makespan changes, at most, when stages take a 1e-11th longer or shorter.
double unsteadiness_s(const Setting& setting, const Cluster& cluster) {
  const double makespan_s = ours_s(setting, cluster);
  double max_s = 0;
  for (size_t pattern = 1; pattern <= 4; ++pattern) {
    Setting changed = setting;
    for (size_t stage = 0; stage < changed.costs.stages.size(); ++stage) {
      changed.costs.stages[stage].forward_s *= (stage / pattern) % 2 == 0 ? 1 + 1e-11 : 1 - 1e-11;
    }
    max_s = std::max(max_s, std::abs(ours_s(changed, cluster) - makespan_s));
  }
  return max_s;
}

class SharedAgreement : public ::testing::TestWithParam<Schedule> {};

TEST_P(SharedAgreement, OnMakespansWithSimGrid) {
  Drawing draw(7);
  double worst = 0;
  int contended = 0, unsteady = 0;
  for (const Setting& setting : make_settings(GetParam(), clusters_per_schedule, 77)) {
    const Cluster cluster = draw_cluster(setting, draw);
    const Platform platform = platform_of(cluster);
    const double ours = ours_s(setting, cluster);
    const double theirs = simgrid_s(setting.program, setting.costs, platform);
    contended += theirs > 1.01 * simgrid_s(setting.program, setting.costs, unshared(platform));
    if (unsteadiness_s(setting, cluster) > 1e-9 * ours) {
      ++unsteady;
      EXPECT_NEAR(ours, theirs, 0.01 * theirs) << setting.description;
      continue;
    }
    EXPECT_NEAR(ours, theirs, 0.5e-6) << setting.description;
    EXPECT_NEAR(ours, theirs, 1e-9 * theirs) << setting.description;
    worst = std::max(worst, std::abs(ours - theirs) / theirs);
  }
  EXPECT_GT(contended, clusters_per_schedule / 8) << "too few settings feel contention";
  EXPECT_LE(unsteady, clusters_per_schedule / 8) << "too few settings can be compared";
  std::printf(
      "  largest relative difference %.1e; contention costs over 1 %% in %d of %d; %d unsteady\n",
      worst, contended, clusters_per_schedule, unsteady);
}

INSTANTIATE_TEST_SUITE_P(Schedules, SharedAgreement, ::testing::ValuesIn(schedules()),
                         [](const ::testing::TestParamInfo<Schedule>& schedule) {
                           std::string name(schedule.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::testing
