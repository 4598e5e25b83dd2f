// A stage as a row of parts, each kept or recomputed as one: the segments that it recomputes, and
// what lies between two of them. Parts hand values on to later ones as stages do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

struct StagePart {
  bool recomputed = false;
  std::vector<OperatorId> operators = {};
};

class StageParts {
 public:
  /// `lives` and `slicing` outlive it.
  StageParts(const ValueLives& lives, const Slicing& slicing, int stage);

  size_t size() const { return parts_.size(); }
  const StagePart& operator[](size_t part) const { return parts_[part]; }
  const ValueLives& lives() const { return lives_; }

  /// Values from and to other stages: do they carry a gradient?
  const std::map<ValueId, bool>& received() const { return received_; }
  const std::map<ValueId, bool>& sent() const { return sent_; }
  /// Values that are read from the data.
  const std::set<ValueId>& inputs() const { return inputs_; }

  /// The part that an operator is in; size() for one of another stage.
  size_t part_of(OperatorId op) const;
  bool inside(OperatorId op, size_t part) const { return op >= 0 && part_of(op) == part; }
  /// ValueLives::named_by and kept_as in this part.
  ValueId root_in(ValueId value, size_t part) const;
  ValueId kept_in(ValueId value, OperatorId keeper, size_t part) const;
  /// Comes from outside the part, and takes memory of this microbatch.
  bool comes_in(ValueId value, size_t part) const;
  bool carries_gradient(ValueId value) const;

  /// Values that come in and are read.
  std::set<ValueId> reads_of(size_t part) const;
  /// Values of this part that later parts and stages read: do they carry a gradient?
  std::map<ValueId, bool> hands_on(size_t part) const;
  /// By the values that the part's memory is named by, the first operator whose backward needs it.
  std::map<ValueId, OperatorId> first_keepers(size_t part) const;
  OperatorId last_reader_in(size_t part, ValueId value) const;  // -1 for none
  int64_t readers_in(size_t part, ValueId value) const;

 private:
  const ValueLives& lives_;
  std::vector<StagePart> parts_;
  std::map<OperatorId, size_t> part_of_;
  std::map<ValueId, bool> received_, sent_;
  std::set<ValueId> inputs_;
};

}  // namespace penstock
