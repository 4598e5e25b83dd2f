// Sorts and indexes flows.
#include "pipeline/program/flow_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace penstock {

namespace {

auto ends(const Flow& flow) { return std::tie(flow.from, flow.to); }

bool before(const Flow& a, const Flow& b) { return ends(a) < ends(b); }

/// Ascending, each pair once; a gradient if any of its flows has one.
std::vector<Flow> merge(std::vector<Flow> flows) {
  std::ranges::stable_sort(flows, before);
  std::vector<Flow> merged;
  for (const Flow& flow : flows) {
    if (!merged.empty() && ends(merged.back()) == ends(flow)) {
      merged.back().gradient = merged.back().gradient || flow.gradient;
    } else {
      merged.push_back(flow);
    }
  }
  return merged;
}

}  // namespace

FlowTable::FlowTable(const std::vector<Flow>& flows, const std::vector<int>& rank_of_stage)
    : flows_(merge(flows)), out_(rank_of_stage.size()), into_(rank_of_stage.size()) {
  const int stages = static_cast<int>(rank_of_stage.size());
  for (int flow = 0; flow < size(); ++flow) {
    const auto [from, to, gradient] = flows_[static_cast<size_t>(flow)];
    if (from < 0 || from >= to || to >= stages) {
      throw std::logic_error("a flow must go from an earlier stage to a later one");
    }
    out_[static_cast<size_t>(from)].push_back(flow);
    into_[static_cast<size_t>(to)].push_back(flow);
    local_.push_back(rank_of_stage[static_cast<size_t>(from)] ==
                     rank_of_stage[static_cast<size_t>(to)]);
  }
}

int FlowTable::find(int from, int to) const {
  const auto found = std::ranges::lower_bound(flows_, Flow{from, to}, before);
  const bool exact = found != flows_.end() && found->from == from && found->to == to;
  return exact ? static_cast<int>(found - flows_.begin()) : -1;
}

int FlowTable::served_by(const Action& transfer) const {
  const int peer = peer_stage(transfer);
  switch (transfer.kind) {
    case Kind::send_forward: return find(transfer.stage, peer);
    case Kind::recv_forward: return find(peer, transfer.stage);
    default: break;
  }
  const bool sends = transfer.kind == Kind::send_backward;
  const int flow = sends ? find(peer, transfer.stage) : find(transfer.stage, peer);
  return flow >= 0 && (*this)[flow].gradient ? flow : -1;
}

}  // namespace penstock
