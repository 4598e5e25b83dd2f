#include "graph/pt2/initial_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "graph/pt2/reader.hpp"

namespace penstock {
namespace pt2 {
namespace {

using Kind = InitialStep::Kind;

constexpr const char* again = "Export the model again with tools/export_model.py --meta.";

struct Form {
  const char* name;
  Kind kind;
  size_t numbers;
  bool draws = false;
};
constexpr Form forms[] = {
    {"fill", Kind::fill, 1},
    {"normal", Kind::normal, 2, true},
    {"uniform", Kind::uniform, 2, true},
    {"bernoulli", Kind::bernoulli, 1, true},
    {"add", Kind::add, 1},
    {"mul", Kind::mul, 1},
    {"div", Kind::div, 1},
    {"clamp", Kind::clamp, 2},
    {"erfinv", Kind::erfinv, 0},
    {"exp", Kind::exp, 0},
    {"log", Kind::log, 0},
    {"sqrt", Kind::sqrt, 0},
    {"cast", Kind::cast, 0},
};

/// Reads the steps of one tensor.
class StepReader {
 public:
  StepReader(const Graph& graph, const StoredTensor& tensor) : graph_(graph), tensor_(tensor) {}

  InitialValues read(const Json& json, int64_t seed) const {
    InitialValues values{seed, dtype(json.at("dtype")), {}};
    DType now = values.dtype;
    for (const Json& step : json.at("steps")) {
      values.steps.push_back(read_step(step));
      if (values.steps.back().kind == Kind::cast) now = values.steps.back().dtype;
    }
    if (values.steps.empty()) refuse("no steps");
    if (now != tensor_.dtype)
      refuse(fmt::format("values of {}, but it has {}", name(now), name(tensor_.dtype)));
    return values;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(graph_.path, fmt::format("initial values of '{}': {}", tensor_.name, problem),
                     again);
  }

  DType dtype(const Json& json) const {
    const auto& wanted = json.get_ref<const std::string&>();
    for (int i = 0; i < 64; ++i)
      if (const auto dtype = static_cast<DType>(i); size_bytes(dtype) > 0 && name(dtype) == wanted)
        return dtype;
    refuse(fmt::format("unknown type '{}'", wanted));
  }

  InitialStep read_step(const Json& json) const {
    const auto& op = json.at("op").get_ref<const std::string&>();
    const auto* const form =
        std::ranges::find_if(forms, [&](const Form& each) { return op == each.name; });
    if (form == std::end(forms)) refuse(fmt::format("unknown step '{}'", op));
    InitialStep step;
    step.kind = form->kind;
    read_numbers(json, *form, step);
    if (form->draws) step.draw = whole(json.at("draw"));
    if (form->draws && step.draw < 0) refuse("a draw with a negative number");
    if (step.kind == Kind::cast) step.dtype = dtype(json.at("dtype"));
    if (json.contains("sizes")) step.part = read_part(json);
    return step;
  }

  void read_numbers(const Json& json, const Form& form, InitialStep& step) const {
    const Json numbers = form.numbers > 0 ? json.at("numbers") : Json::array();
    if (numbers.size() != form.numbers)
      refuse(fmt::format("{} takes {} numbers, not {}", form.name, form.numbers, numbers.size()));
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto number = [&](size_t at, double open) {
      if (step.kind == Kind::clamp && numbers.at(at).is_null()) return open;
      return numbers.at(at).get<double>();
    };
    if (form.numbers > 0) step.first = number(0, -infinity);
    if (form.numbers > 1) step.second = number(1, infinity);
    const bool sound = step.kind == Kind::normal      ? step.second >= 0
                       : step.kind == Kind::uniform   ? step.first <= step.second
                       : step.kind == Kind::bernoulli ? step.first >= 0 && step.first <= 1
                                                      : true;
    if (!sound) refuse(fmt::format("{} cannot take {} and {}", form.name, step.first, step.second));
  }

  InitialStep::Part read_part(const Json& json) const {
    InitialStep::Part part;
    for (const Json& size : json.at("sizes")) part.sizes.push_back(whole(size));
    for (const Json& stride : json.at("strides")) part.strides.push_back(whole(stride));
    part.offset = whole(json.at("offset"));
    int64_t last = part.offset;
    bool sound = part.sizes.size() == part.strides.size() && part.offset >= 0;
    for (size_t i = 0; sound && i < part.sizes.size(); ++i) {
      int64_t reach = 0;
      sound = part.sizes[i] > 0 && part.strides[i] >= 0 &&
              !__builtin_mul_overflow(part.sizes[i] - 1, part.strides[i], &reach) &&
              !__builtin_add_overflow(last, reach, &last);
    }
    if (!sound || last >= tensor_.elements()) refuse("a part that is not within it");
    return part;
  }

  const Graph& graph_;
  const StoredTensor& tensor_;
};

bool is_stored(const StoredTensor& tensor) {
  return !tensor.file.empty() || tensor.elements() == 0;
}

/// The member that the exporter writes; nothing where there is none.
Json read_member(const Graph& graph) {
  if (graph.layers) return Json::object();
  const Zip zip(graph.path);
  const std::string member = zip.full("extra/initial_values.json");
  return zip.has(member) ? parse(zip.read(member)) : Json::object();
}

std::map<int, InitialValues> read_all(const Graph& graph, const Json& member) {
  std::map<int, InitialValues> all;
  if (!member.contains("tensors")) return all;
  const int64_t seed = whole(member.at("seed"));
  for (const auto& [name, index] : graph.tensor_by_name()) {
    const StoredTensor& tensor = graph.tensors[static_cast<size_t>(index)];
    const auto found = member.at("tensors").find(name);
    if (found == member.at("tensors").end() || is_stored(tensor)) continue;
    all.emplace(index, StepReader(graph, tensor).read(*found, seed));
  }
  return all;
}

/// Does `use` with the file's member; its JSON may be anything.
template <typename Use>
auto with_member(const Graph& graph, const Use& use) {
  try {
    return use(read_member(graph));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        graph.path,
        fmt::format("has other initial values than the exporter writes: {}", error.what()), again);
  }
}

}  // namespace
}  // namespace pt2

std::map<int, InitialValues> read_initial_values(const Graph& graph) {
  return pt2::with_member(graph,
                          [&](const pt2::Json& member) { return pt2::read_all(graph, member); });
}

void require_values(const Graph& graph, const std::function<bool(int tensor)>& given) {
  if (std::ranges::all_of(graph.tensors, pt2::is_stored)) return;
  pt2::with_member(graph, [&](const pt2::Json& member) {
    const auto initial = pt2::read_all(graph, member);
    const auto reasons = member.value("unknown", std::map<std::string, std::string>{});
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const StoredTensor& tensor = graph.tensors[i];
      const auto index = static_cast<int>(i);
      if (pt2::is_stored(tensor) || initial.contains(index) || (given && given(index))) continue;
      const auto reason = reasons.find(tensor.name);
      throw InputError(
          graph.path,
          fmt::format("has no values for `{}`: it was exported with --meta, and {}", tensor.name,
                      reason == reasons.end() ? "says nothing of them" : reason->second),
          "Give its weights (execute --weights), export it without --meta, or let its module "
          "initialise it by uniform_, normal_, fill_ and the like.");
    }
  });
}

}  // namespace penstock
