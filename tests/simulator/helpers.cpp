#include "tests/simulator/helpers.hpp"

#include <fmt/format.h>

namespace penstock::testing {

std::string print(const Timeline& timeline) {
  std::string text;
  for (const TimelineEvent& event : timeline) {
    text += fmt::format("{} {} {} {}\n", event.rank, to_string(event.action), event.start_s,
                        event.end_s);
  }
  return text;
}

}  // namespace penstock::testing
