// The unit of work that schedules, the simulator and the executor share.
//
// An action prints and parses as STAGE KIND MICROBATCH, the notation of
// torch.distributed.pipelining:
//
//   2F0        forward of stage 2 on microbatch 0
//   1SEND_F0   stage 1 sends its outputs for microbatch 0 to stage 2
//   1SEND_F0:5 … to stage 5 (a skip connection)
//   (0F1;7B0)OVERLAP_F_B
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
namespace penstock {

enum class Kind : uint8_t {
  forward,          // F
  backward,         // B, for input and weight at once
  backward_input,   // I
  backward_weight,  // W
  send_forward,
  recv_forward,  // SEND_F, RECV_F: activations
  send_backward,
  recv_backward,  // SEND_B, RECV_B: gradients
  reduce_grad,    // REDUCE_GRAD: sums a stage's gradients over replicas and holders
  optimizer,      // OPT
  overlap         // OVERLAP_F_B: a forward and a backward, with their transfers overlapped
};

struct Action {
  int stage = 0;
  Kind kind = Kind::forward;
  int microbatch = -1;  // -1 where the kind has none (REDUCE_GRAD, OPT)
  int peer = -1;        // the other stage of a transfer; -1: the neighbour
  // The second of an OVERLAP_F_B, whose stage and microbatch are those of its forward:
  int backward_stage = -1, backward_microbatch = -1;
  Kind backward_kind = Kind::forward;  // B or I in an overlap

  auto operator<=>(const Action&) const = default;
};

/// The two side by side: a forward, and a B or I.
Action overlap(const Action& forward, const Action& backward);
/// The two that an OVERLAP_F_B consists of.
Action forward_part(const Action& overlap);
Action backward_part(const Action& overlap);

/// Calls `visit` with the two actions of an OVERLAP_F_B, or with the action itself.
template <typename Visit>
void for_each_part(const Action& action, Visit visit) {
  if (action.kind != Kind::overlap) return visit(action);
  visit(forward_part(action));
  visit(backward_part(action));
}

bool is_compute(Kind kind);  // F, B, I, W, OVERLAP_F_B
/// B or I: what produces the gradients of a stage's inputs.
inline bool is_input_backward(Kind kind) {
  return kind == Kind::backward || kind == Kind::backward_input;
}
bool is_send(Kind kind);
bool is_receive(Kind kind);
inline bool is_transfer(Kind kind) { return is_send(kind) || is_receive(kind); }
/// `SEND_F`.
std::string_view name(Kind kind);
/// The stage at the other end of a transfer: peer, or the neighbour that its kind implies
/// (SEND_F and RECV_B: stage + 1; RECV_F and SEND_B: stage - 1).
int peer_stage(const Action& action);

/// `2F0`. A peer that is the neighbour is not printed.
std::string to_string(const Action& action);
/// Throws InputError, place `place`.
Action parse_action(std::string_view text, std::string_view place);

}  // namespace penstock
