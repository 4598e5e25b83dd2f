// How long the values of a model live in its memory at one microbatch size, by what was measured
// of its operators (pipeline/profile/profile.hpp: ValueMemory).
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

class ValueLives {
 public:
  /// The operators are the model's, as many as it has.
  ValueLives(const Graph& model, const MicrobatchCosts& measured);

  int64_t bytes(ValueId value) const { return bytes_[index(value)]; }
  OperatorId producer(ValueId value) const { return producers_[index(value)]; }
  /// The value whose memory it lies in, or -1: memory of its own.
  ValueId source(ValueId value) const { return sources_[index(value)]; }
  /// A message of it is a copy.
  bool strided(ValueId value) const { return strided_[index(value)]; }
  /// Values that the operator's backward needs, and those that it reads.
  const std::vector<ValueId>& kept_by(OperatorId op) const { return kept_by_[index(op)]; }
  const std::vector<ValueId>& reads(OperatorId op) const { return reads_[index(op)]; }
  /// Computed once and kept: from nothing that a microbatch or the optimizer changes.
  bool constant(ValueId value) const { return constant_[index(value)]; }
  /// Values that it makes in memory of their own.
  const std::vector<ValueId>& makes(OperatorId op) const { return makes_[index(op)]; }
  /// Bytes from F to B that are no values: statistics, masks, copies.
  int64_t own_bytes(OperatorId op) const { return own_bytes_[index(op)]; }

  // Among the operators for which `inside` holds:
  /// the value that its memory is named by, one that is made there or is given,
  template <class Inside>
  ValueId named_by(ValueId value, Inside inside) const {
    while (inside(producer(value)) && source(value) >= 0) value = source(value);
    return value;
  }
  /// and the one whose memory `keeper` holds where its backward needs `value`: of what is gathered
  /// again the part.
  template <class Inside>
  ValueId kept_as(ValueId value, OperatorId keeper, Inside inside) const {
    const ValueId own = named_by(value, inside), part = gathered_from_[index(own)];
    const bool again = part >= 0 && producer(own) != keeper && inside(producer(own));
    return again ? named_by(part, inside) : own;
  }

  // Where the whole model is one stage, the memory of a value:
  /// the value that it is named by,
  ValueId root(ValueId value) const { return roots_[index(value)]; }
  /// the last operator that reads it (its producer where none does),
  OperatorId last_reader(ValueId root) const { return last_readers_[index(root)]; }
  /// and the first whose backward needs it, -1: none.
  OperatorId first_keeper(ValueId root) const { return first_keepers_[index(root)]; }
  /// The last operator that reads this very value, -1: none.
  OperatorId last_reader_itself(ValueId value) const { return last_readers_itself_[index(value)]; }
  /// The last but one, -1: it has fewer readers.
  OperatorId second_reader(ValueId value) const { return second_readers_[index(value)]; }
  /// Does the operator's backward make no memory for that gradient, but hand its own on, or a part
  /// of it?
  bool hands_gradient_on(OperatorId op, ValueId value) const;
  /// The operator whose backward lets go of the gradient of `value`; -1: not known. A gradient that
  /// is handed on stays until it is added to another, or is used up.
  OperatorId gradient_user(ValueId value) const;
  /// A concatenation whose gradient is handed on in parts, which lie in its memory.
  struct Concatenation {
    ValueId value;
    OperatorId maker, gradient_user;
  };
  const std::vector<Concatenation>& concatenations() const { return concatenations_; }

 private:
  bool concatenates(OperatorId op) const;
  static size_t index(int id) { return static_cast<size_t>(id); }
  void find_constants(const Graph& model);
  void enter(const Operator& op, OperatorId id, const ValueMemory& memory);

  std::vector<int64_t> bytes_, own_bytes_;
  std::vector<OperatorId> producers_, last_readers_, last_readers_itself_, second_readers_,
      first_keepers_;
  std::vector<ValueId> sources_, roots_, gathered_from_;
  std::vector<bool> strided_, constant_;
  std::vector<int64_t> backward_peak_;  // by operator
  std::vector<Concatenation> concatenations_;
  std::vector<std::vector<ValueId>> kept_by_, reads_, makes_;
};

}  // namespace penstock
