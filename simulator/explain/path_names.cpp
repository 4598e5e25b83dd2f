// Names of the parts and causes of a critical path.
#include "simulator/explain/critical_path.hpp"

namespace penstock {

std::string_view name(PathStep::Part part) {
  switch (part) {
    case PathStep::Part::compute: return "compute";
    case PathStep::Part::reduce: return "all-reduce";
    case PathStep::Part::transfer: return "transfer";
    case PathStep::Part::launch: return "launch";
    case PathStep::Part::wait: return "wait";
  }
  return "";
}

std::string_view describe(PathStep::Cause cause) {
  switch (cause) {
    case PathStep::Cause::start: return "nothing: it begins the step";
    case PathStep::Cause::previous: return "the previous action of its rank";
    case PathStep::Cause::message: return "the message that it needs";
    case PathStep::Cause::channel: return "the message before it on the channel";
    case PathStep::Cause::receive: return "a receive to be posted";
    case PathStep::Cause::agreement: return "the last rank to come to OPT";
    case PathStep::Cause::unknown: return "something that is not recorded";
  }
  return "";
}

}  // namespace penstock
