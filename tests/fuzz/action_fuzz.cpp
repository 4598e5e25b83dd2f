// Actions: what is accepted prints as a text that parses as the same action.
#include "pipeline/program/action.hpp"

#include "tests/fuzz/fuzz.hpp"

using namespace penstock;
using namespace penstock::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto action =
      accepted("row 1: ", [&] { return parse_action(text_of(data, size), "row 1"); });
  if (!action) return 0;
  require(parse_action(to_string(*action), "printed") == *action, "an action parses as it prints");
  require(!is_send(action->kind) || peer_stage(*action) >= 0, "a transfer has a peer");
  require(!is_receive(action->kind) || peer_stage(*action) >= 0, "a transfer has a peer");
  return 0;
}
