// Bytes of the stages of a chain (chain_memory.hpp), found once for each microbatch size and number
// of parts of the optimizer's state, and shared by all layouts of a search.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "planner/model/model_chain.hpp"

namespace penstock {

/// For any number of threads. A table is made when it is first asked for.
class StageTables {
 public:
  /// Chain and profile outlive it. `units`: those that may recompute, each as a stage.
  StageTables(const ModelChain& chain, const Profile& profile, Slicing units, SharingWays ways)
      : chain_(chain), profile_(profile), units_(std::move(units)), ways_(ways) {}

  /// `state_parts` as in SharingWays.
  std::shared_ptr<const StageTable> of(const MicrobatchCosts& measured, int64_t state_parts);
  /// Bytes that the whole model keeps as one stage, without tensors and what units free; no table
  /// is made.
  StageBytes kept_by_whole(const MicrobatchCosts& measured) const;

 private:
  struct Table {
    std::once_flag once;
    std::shared_ptr<const StageTable> made;
  };
  SharingWays ways(int64_t state_parts) const;

  const ModelChain& chain_;
  const Profile& profile_;
  const Slicing units_;
  const SharingWays ways_;
  std::mutex mutex_;                                     // of the map, not of making its tables
  std::map<std::pair<int64_t, int64_t>, Table> tables_;  // by microbatch size and parts
};

}  // namespace penstock
