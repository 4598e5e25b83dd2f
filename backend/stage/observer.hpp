// Who wants to know what a forward does, operator by operator.
#pragma once

#include <vector>

#include "backend/operators/interpreter.hpp"

namespace penstock {

/// Is told of each operator that runs; those that ran once and are kept (constants) are left out.
/// The loss counts as the operator that makes the model's first output, and runs after all others.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  /// It is next, and will read these.
  virtual void before(OperatorId op, const std::vector<ValueId>& reads,
                      const ValueTable& values) = 0;
  /// It has run: its outputs are there, and nothing that it read was released.
  virtual void after(OperatorId op, const std::vector<ValueId>& reads,
                     const std::vector<ValueId>& outputs, const ValueTable& values) = 0;
};

}  // namespace penstock
