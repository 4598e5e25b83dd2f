// A model as a chain of units, as the search sees it: costs and bytes from the profile, of the same
// terms as the costs of a plan (simulator/costs/stage_terms.hpp), so that the bounds of a split are
// never above its simulation.
//
// Times count an operator once, in its own unit; a constant or parameter-derived value, which
// stages compute where they need it, only if that unit needs it. A parameter is updated in the
// first unit that uses it, and saves microbatch 0 its accumulation in each. Of what crosses a cut
// only the values made in the unit before it and used in the unit behind it are sure to cross it
// whatever the other cuts are; where there are none, or none that carries a gradient, the cut is
// not linked.
#pragma once

#include <set>
#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/parameters.hpp"
#include "pipeline/profile/profile.hpp"
#include "planner/bounds/bounds.hpp"
#include "planner/bounds/chain_memory.hpp"
#include "simulator/costs/stage_terms.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// The ways (pipeline/plan/sharing.hpp) in which plans may share parameters; bounds hold for all of
/// them. `state_parts`: so many replicas share out the optimizer's state; of parameters that
/// several units use bounds then leave it out, and its steps.
struct SharingWays {
  bool replicate = true, transmit = false;
  int64_t state_parts = 1;
};

class ModelChain {
 public:
  /// `begins`: first operator of each unit, begins[0] = 0, ascending. The model must stay.
  ModelChain(const Graph& model, const Analysis& analysis, std::vector<OperatorId> begins);
  /// Non-contiguous units, from the unit of each operator; begins() is then empty.
  ModelChain(const Graph& model, const Analysis& analysis, std::vector<int> unit_of_operator,
             int units);

  int units() const { return static_cast<int>(slicing_.stages.size()); }
  const std::vector<OperatorId>& begins() const { return begins_; }
  /// Each unit as a stage.
  const Slicing& slicing() const { return slicing_; }
  /// The stage of each unit, from the first units of the stages …
  std::vector<int> stage_of_unit(const std::vector<int>& first_units) const;
  /// … and the stage of each operator, from those of the units.
  std::vector<int> operators(const std::vector<int>& stage_of_unit) const;

  /// How a schedule runs backwards: whole, in two parts, or each as it likes.
  enum class Backward { whole, split, either };
  /// For splits into `stages`, with the best links between ranks: for values, for sums.
  ChainCosts costs(const Profile& profile, const MicrobatchCosts& measured, const Link& link,
                   const Link& reduce, int stages, Backward backward = Backward::whole,
                   SharingWays ways = {}) const;
  /// Bytes of the gradients of the parameters that a unit is the first to use and surely the owner
  /// of.
  std::vector<int64_t> gradient_bytes(const Job& job, SharingWays ways = {}) const;
  /// Kept bytes are exact, also of tensors but where parameters may be transmitted; messages and
  /// transients are left out. `recomputed`: the units that may recompute, each as a stage.
  StageTable bytes(const Profile& profile, const MicrobatchCosts& measured,
                   const Slicing& recomputed, SharingWays ways = {}) const;
  /// The parts of them that depend on the size of microbatches, and on the ways, into a table for
  /// these units.
  void add_kept(const Profile& profile, const MicrobatchCosts& measured, StageTable& table) const;
  void add_tensors(const Job& job, SharingWays ways, StageTable& table) const;

 private:
  void add_recompute(const Job& job, const MicrobatchCosts& measured, const Slicing& recomputed,
                     StageTable& table) const;
  int64_t tensor_bytes(const Job& job, int index, bool stepped, SharingWays ways) const;

  std::vector<OperatorSums> unit_sums(const MicrobatchCosts& measured) const;
  void add_inputs(const MicrobatchCosts& measured, ChainCosts& costs) const;
  void add_parameters(const Profile& profile, SharingWays ways, ChainCosts& costs) const;
  double reduce_s(const Job& job, const Link& link, int stages, SharingWays ways) const;
  double shared_s(const Link& link, int64_t bytes, int ranks, SharingWays ways) const;
  bool owner_unknown(int tensor, SharingWays ways) const;
  void add_cut(int cut, int64_t microbatch, const Link& link, bool forward_only,
               ChainCosts& costs) const;

  void count_users();

  const Graph& model_;
  std::set<int> updated_buffers_ = updated_buffers(model_);
  std::vector<OperatorId> begins_;
  Slicing slicing_;               // each unit a stage
  std::vector<int> units_using_;  // of each tensor
  std::vector<int> first_using_;  // of each tensor: the first of these
};

}  // namespace penstock
