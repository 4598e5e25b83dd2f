#include "bench/program.hpp"

#include "pipeline/program/lowering.hpp"
#include "pipeline/program/schedule.hpp"

namespace penstock::bench {

Program build_compute(const Study& study) {
  return find_schedule(study.schedule, "bench")
      .generate({study.ranks, study.stages_per_rank, study.microbatches});
}

Program build_program(const Study& study) {
  const Program compute = build_compute(study);
  return lower(compute, chain_flows(compute.stage_count()));
}

Costs build_costs(const Program& program) {
  const int stages = program.stage_count();
  return equal_stages(
      stages,
      {.forward_s = 1e-3, .backward_s = 2e-3, .backward_input_s = 1e-3, .backward_weight_s = 1e-3},
      chain_flows(stages), 16'000'000);
}

Network build_network(const Study& study) {
  constexpr int ranks_per_node = 4;
  const bool eager = study.links == Study::Links::eager;
  const Link link{
      .latency_s = 10e-6, .bandwidth = 25e9, .mode = eager ? SendMode::eager : SendMode::posted};
  if (study.links != Study::Links::shared) return link;
  Cluster cluster{.link = link};
  cluster.nodes = {{.count = (study.ranks + ranks_per_node - 1) / ranks_per_node,
                    .devices = ranks_per_node,
                    .latency_s = 10e-6,
                    .bandwidth = 25e9,
                    .bus_bandwidth = 25e9,
                    .card_bandwidth = 25e9}};
  cluster.between.latency_s = 10e-6;
  return Network(cluster);
}

}  // namespace penstock::bench
