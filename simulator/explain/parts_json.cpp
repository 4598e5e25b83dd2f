#include "simulator/explain/parts_json.hpp"

namespace penstock {

nlohmann::ordered_json to_json(const IdleParts& parts) {
  return {{"ramp_s", parts.ramp_s},           {"imbalance_s", parts.imbalance_s},
          {"transfers_s", parts.transfers_s}, {"launch_s", parts.launch_s},
          {"recompute_s", parts.recompute_s}, {"all_reduce_s", parts.all_reduce_s}};
}

nlohmann::ordered_json to_json(const MemoryParts& parts) {
  return {{"fixed_bytes", parts.fixed_bytes},
          {"snapshot_bytes", parts.snapshot_bytes},
          {"message_bytes", parts.message_bytes},
          {"saved_bytes", parts.saved_bytes},
          {"saved_weight_bytes", parts.saved_weight_bytes},
          {"recomputed_bytes", parts.recomputed_bytes},
          {"transient_bytes", parts.transient_bytes}};
}

nlohmann::ordered_json to_json(const RankTime& time) {
  return {{"compute_s", time.compute_s},
          {"waiting_s", time.waiting_s},
          {"transfers_s", time.transfers_s},
          {"reduction_s", time.reduction_s},
          {"optimizer_s", time.optimizer_s}};
}

}  // namespace penstock
