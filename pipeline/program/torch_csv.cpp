#include "pipeline/program/torch_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.hpp"

namespace penstock {

namespace {

constexpr std::string_view kDigits = "0123456789";

void require_neighbours(const std::vector<Flow>& flows, const std::string& place) {
  for (const Flow& flow : flows) {
    if (flow.to == flow.from + 1) continue;
    throw InputError(
        place,
        fmt::format("stage {} uses values of stage {}, but torch's lowered format only has "
                    "transfers between neighbours",
                    flow.to, flow.from),
        "Split where one stage hands on all that later ones need, or execute with Penstock.");
  }
}

}  // namespace

std::string to_torch_compute_csv(const Program& program) { return to_csv(compute_only(program)); }

std::string to_torch_lowered_csv(const Program& compute, const std::vector<Flow>& flows,
                                 const std::string& place) {
  require_neighbours(flows, place);
  LoweringOptions options{.reduce_stages = {}, .optimizer = false, .place = place};
  options.reduce_stages.resize(compute.rank_of_stage.size());
  std::iota(options.reduce_stages.begin(), options.reduce_stages.end(), 0);
  return to_csv(lower(compute, chain_flows(compute.stage_count()), options));
}

bool concerns_torch_alone(std::string_view cell) {
  static constexpr std::array<std::string_view, 5> words = {
      "UNSHARD", "RESHARD", "WAIT_REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B"};
  const size_t stage = std::min(cell.find_first_not_of(kDigits), cell.size());
  if (stage == 0) return false;
  cell.remove_prefix(stage);
  const size_t microbatch = cell.find_last_not_of(kDigits) + 1;
  return std::ranges::find(words, cell.substr(0, microbatch)) != words.end();
}

}  // namespace penstock
