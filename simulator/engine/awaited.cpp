#include "simulator/engine/awaited.hpp"

#include <stdexcept>
#include <utility>

namespace penstock {

namespace {

int32_t& next(std::vector<Message>& messages, int32_t id) {
  return messages[static_cast<size_t>(id)].next_awaited;
}

}  // namespace

Awaited::Awaited(int stages, int microbatches)
    : microbatches_(microbatches),
      lists_(2 * static_cast<size_t>(stages) * static_cast<size_t>(microbatches)) {}

Awaited::List* Awaited::list(int stage, int microbatch, bool backward) {
  if (microbatch < 0 || microbatch >= microbatches_) return nullptr;
  const auto cell = static_cast<size_t>(stage) * static_cast<size_t>(microbatches_) +
                    static_cast<size_t>(microbatch);
  return &lists_[2 * cell + (backward ? 1 : 0)];
}

void Awaited::add(const Action& receive, int32_t id, std::vector<Message>& messages) {
  List* waiting = list(receive.stage, receive.microbatch, receive.kind == Kind::recv_backward);
  if (!waiting) throw std::invalid_argument(to_string(receive) + ": a microbatch out of range");
  (waiting->first < 0 ? waiting->first : next(messages, waiting->last)) = id;
  waiting->last = id;
  added_.push_back(waiting);
}

int32_t Awaited::take(const Action& compute, std::vector<Message>& messages) {
  if (compute.kind == Kind::overlap) return join_parts(compute, messages);
  const bool backward = compute.kind == Kind::backward || compute.kind == Kind::backward_input;
  if (!backward && compute.kind != Kind::forward) return -1;
  List* waiting = list(compute.stage, compute.microbatch, backward);
  return waiting ? std::exchange(*waiting, {}).first : -1;
}

int32_t Awaited::join_parts(const Action& overlap, std::vector<Message>& messages) {
  int32_t first = -1, last = -1;
  for_each_part(overlap, [&](const Action& part) {
    const int32_t more = take(part, messages);
    if (more < 0) return;
    (first < 0 ? first : next(messages, last)) = more;
    for (last = more; next(messages, last) >= 0;) last = next(messages, last);
  });
  return first;
}

std::vector<int32_t> Awaited::take_rest(std::vector<Message>& messages) {
  std::vector<int32_t> rest;
  for (List* waiting : added_) {
    for (int32_t id = std::exchange(*waiting, {}).first; id >= 0;) {
      rest.push_back(id);
      id = std::exchange(next(messages, id), -1);
    }
  }
  added_.clear();
  return rest;
}

}  // namespace penstock
