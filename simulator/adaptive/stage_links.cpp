#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

double transfer_s(const AdaptiveProblem& problem, int from, int to) {
  const int sender = problem.rank_of_stage[static_cast<size_t>(from)];
  const int receiver = problem.rank_of_stage[static_cast<size_t>(to)];
  if (sender == receiver) return 0;
  const Route route = problem.network.route(sender, receiver);
  const Kind kind = from < to ? Kind::send_forward : Kind::send_backward;
  const auto bytes = static_cast<double>(problem.costs.message_bytes({from, kind, 0, to}));
  return route.latency_s + route.propagation_s +
         (route.bandwidth > 0 ? bytes / route.bandwidth : 0);
}

StageLinks::StageLinks(const AdaptiveProblem& problem)
    : forward(problem.rank_of_stage.size()), backward(problem.rank_of_stage.size()) {
  for (const Flow& flow : problem.flows) {
    forward[static_cast<size_t>(flow.to)].push_back(
        {flow.from, transfer_s(problem, flow.from, flow.to)});
    if (!flow.gradient) continue;
    backward[static_cast<size_t>(flow.from)].push_back(
        {flow.to, transfer_s(problem, flow.to, flow.from)});
  }
}

}  // namespace penstock
