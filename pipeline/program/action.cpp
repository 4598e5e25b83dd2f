// Prints and parses actions; the notation is described in action.hpp.
#include "pipeline/program/action.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace penstock {

namespace {

struct KindName {
  Kind kind;
  std::string_view name;
  bool has_microbatch;
};

// In the order of the enumeration.
constexpr std::array<KindName, 11> kinds{{{Kind::forward, "F", true},
                                          {Kind::backward, "B", true},
                                          {Kind::backward_input, "I", true},
                                          {Kind::backward_weight, "W", true},
                                          {Kind::send_forward, "SEND_F", true},
                                          {Kind::recv_forward, "RECV_F", true},
                                          {Kind::send_backward, "SEND_B", true},
                                          {Kind::recv_backward, "RECV_B", true},
                                          {Kind::reduce_grad, "REDUCE_GRAD", false},
                                          {Kind::optimizer, "OPT", false},
                                          {Kind::overlap, "OVERLAP_F_B", false}}};

/// Largest number of a stage or microbatch: counts of them, and the stage behind, are numbers
/// still.
constexpr int largest = std::numeric_limits<int>::max() - 1;

/// Reads an action from the front of a text and remembers the whole for messages.
class Reader {
 public:
  Reader(std::string_view text, std::string_view place) : text_(text), rest_(text), place_(place) {}

  Action action() {
    Action result = rest_.starts_with('(') ? overlap() : single();
    if (!rest_.empty()) fail(fmt::format("`{}` is left over", rest_));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(place_, fmt::format("`{}` is not an action: {}", text_, problem),
                     "Write STAGE KIND MICROBATCH, such as 2F0, 1SEND_F0, 1SEND_F0:5 or "
                     "(0F1;7B0)OVERLAP_F_B.");
  }

  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  int number(std::string_view what) {
    int value = -1;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::result_out_of_range || value > largest) {
      fail(fmt::format("the {} is too large", what));
    }
    if (error != std::errc() || value < 0) fail(fmt::format("the {} is missing", what));
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  const KindName& kind() {
    const size_t end = std::min(rest_.find_first_of("0123456789:;)"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    const auto found = std::ranges::find(kinds, word, &KindName::name);
    if (found == kinds.end() || found->kind == Kind::overlap) {
      fail(
          fmt::format("`{}` is no kind; kinds are F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
                      "REDUCE_GRAD and OPT",
                      word));
    }
    rest_.remove_prefix(end);
    return *found;
  }

  Action single() {
    Action result;
    result.stage = number("stage");
    const KindName& read = kind();
    result.kind = read.kind;
    if (read.has_microbatch) result.microbatch = number("microbatch");
    if (is_transfer(read.kind)) peer(result);
    return result;
  }

  void peer(Action& transfer) {
    if (take(":")) {
      const int stage = number("peer");
      if (stage == transfer.stage) fail("a stage exchanges nothing with itself");
      if (stage != peer_stage(transfer)) transfer.peer = stage;
    }
    if (peer_stage(transfer) < 0) fail("stage 0 has no previous stage");
  }

  Action overlap() {
    take("(");
    const Action forward = single();
    if (!take(";") || forward.kind != Kind::forward) fail("an overlap is one F, then one B or I");
    const Action backward = single();
    if (!is_input_backward(backward.kind)) fail("an overlap is one F, then one B or I");
    if (!take(")OVERLAP_F_B")) fail("`)OVERLAP_F_B` is missing");
    return penstock::overlap(forward, backward);
  }

  std::string_view text_, rest_, place_;
};

}  // namespace

Action overlap(const Action& forward, const Action& backward) {
  return {.stage = forward.stage,
          .kind = Kind::overlap,
          .microbatch = forward.microbatch,
          .backward_stage = backward.stage,
          .backward_microbatch = backward.microbatch,
          .backward_kind = backward.kind};
}

Action forward_part(const Action& overlap) {
  return {overlap.stage, Kind::forward, overlap.microbatch};
}

Action backward_part(const Action& overlap) {
  return {overlap.backward_stage, overlap.backward_kind, overlap.backward_microbatch};
}

bool is_compute(Kind kind) {
  return kind == Kind::forward || kind == Kind::backward || kind == Kind::backward_input ||
         kind == Kind::backward_weight || kind == Kind::overlap;
}

bool is_send(Kind kind) { return kind == Kind::send_forward || kind == Kind::send_backward; }

bool is_receive(Kind kind) { return kind == Kind::recv_forward || kind == Kind::recv_backward; }

std::string_view name(Kind kind) { return kinds[static_cast<size_t>(kind)].name; }

int peer_stage(const Action& action) {
  if (action.peer >= 0) return action.peer;
  const bool next = action.kind == Kind::send_forward || action.kind == Kind::recv_backward;
  return next ? action.stage + 1 : action.stage - 1;
}

std::string to_string(const Action& action) {
  if (action.kind == Kind::overlap) {
    return fmt::format("({};{})OVERLAP_F_B", to_string(forward_part(action)),
                       to_string(backward_part(action)));
  }
  std::string text = fmt::format("{}{}", action.stage, name(action.kind));
  if (action.microbatch >= 0) text += fmt::format("{}", action.microbatch);
  Action neighbour = action;
  neighbour.peer = -1;
  if (action.peer >= 0 && action.peer != peer_stage(neighbour)) {
    text += fmt::format(":{}", action.peer);
  }
  return text;
}

Action parse_action(std::string_view text, std::string_view place) {
  return Reader(text, place).action();
}

}  // namespace penstock
