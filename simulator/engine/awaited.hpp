// Which task waits for which messages: those of its stage, microbatch and direction.
#pragma once

#include <vector>

#include "simulator/engine/compile.hpp"

namespace penstock {

/// Messages that have been posted and that no task waits for yet, in lists by what needs them,
/// linked through Message::next_awaited. One rank's after another's.
class Awaited {
 public:
  Awaited() = default;
  Awaited(int stages, int microbatches);

  /// `receive` posts message `id`; its microbatch is below the number given.
  void add(const Action& receive, int32_t id, std::vector<Message>& messages);
  /// The first of the messages that a compute waits for, the others linked behind it; -1: none.
  int32_t take(const Action& compute, std::vector<Message>& messages);
  /// All that no task has taken, unlinked: a later rank starts anew.
  std::vector<int32_t> take_rest(std::vector<Message>& messages);

 private:
  struct List {
    int32_t first = -1, last = -1;
  };
  List* list(int stage, int microbatch, bool backward);
  int32_t join_parts(const Action& overlap, std::vector<Message>& messages);

  int microbatches_ = 0;
  std::vector<List> lists_;   // by stage, microbatch, direction
  std::vector<List*> added_;  // since take_rest
};

}  // namespace penstock
