#include "pipeline/profile/costs_reader.hpp"

#include <fmt/format.h>

namespace penstock {

namespace {

Measured read_measured(const JsonValue& value) {
  return {read_amount(value, "mean_s"), read_amount(value, "median_s"),
          read_amount(value, "spread_s"), value.integer("repetitions", 0, INT32_MAX),
          read_host_amount(value, "host_s")};
}

/// Sums over a model's operators then stay within 64 bits.
constexpr int64_t most_bytes = int64_t{1} << 50;

MemoryChange read_change(const JsonValue& value) {
  const MemoryChange change{value.integer("net"), read_bytes(value, "peak")};
  if (change.net < -most_bytes) {
    value.at("net").refuse(fmt::format("{} is below minus a pebibyte", change.net),
                           "Profile the job again.");
  }
  if (change.net > change.peak) {
    value.at("net").refuse(fmt::format("{} is above the peak, {}", change.net, change.peak),
                           "Profile the job again.");
  }
  return change;
}

HeldBytes read_held(const JsonValue& value) {
  return {read_bytes(value, "output"), read_change(value.at("forward")),
          read_change(value.at("backward")), read_change(value.at("backward_input")),
          read_change(value.at("backward_weight"))};
}

std::vector<int> read_numbers(const JsonValue& value, const std::string& key) {
  std::vector<int> numbers;
  if (!value.has(key)) return numbers;
  for (const JsonValue& number : value.list(key)) {
    if (number.integer() < 0 || number.integer() > INT32_MAX)
      number.refuse(fmt::format("{} numbers no value", number.integer()), "Profile the job again.");
    numbers.push_back(static_cast<int>(number.integer()));
  }
  return numbers;
}

ValueMemory read_values(const JsonValue& value) {
  ValueMemory memory{read_numbers(value, "keeps"), {}, read_numbers(value, "strided")};
  if (!value.has("shares")) return memory;
  for (const JsonValue& pair : value.list("shares")) {
    memory.shares.emplace_back(pair.integer("output", 0, INT32_MAX),
                               pair.integer("of", 0, INT32_MAX));
  }
  return memory;
}

/// The entry whose costs are this one's, one of those before it.
template <typename Cost>
const Cost& entry_before(const JsonValue& value, const std::vector<Cost>& before) {
  const int last = static_cast<int>(before.size()) - 1;
  return before[static_cast<size_t>(value.integer("same_as", 0, last))];
}

/// Without a name it is the operator in the same place of `named`.
OperatorCost read_operator(const JsonValue& value, const std::vector<OperatorCost>& before,
                           const std::vector<OperatorCost>* named) {
  OperatorCost op;
  const size_t place = before.size();
  const bool has_name = value.has("name") || !named || place >= named->size();
  if (value.has("same_as")) {
    op = entry_before(value, before);
  } else {
    op.flops = read_amount(value, "flops");
    op.bytes = read_bytes(value, "bytes");
    op.times = read_times(value.at("times"));
    op.held = read_held(value.at("held_bytes"));
    op.values = read_values(value);
  }
  op.name = has_name ? value.text("name") : (*named)[place].name;
  op.target = has_name ? value.text("target") : (*named)[place].target;
  op.module = has_name ? value.text("module") : (*named)[place].module;
  return op;
}

/// Factors of a mean of 1, about: one that is above 0 is enough to scale them to it.
std::vector<double> read_factors(const JsonValue& value) {
  std::vector<double> factors;
  double sum = 0;
  for (const JsonValue& factor : value.list()) {
    if (factor.number() < 0)
      factor.refuse(fmt::format("{} is negative", factor.number()), "Profile the job again.");
    sum += factors.emplace_back(factor.number());
  }
  if (sum <= 0) value.refuse("no factor is above 0", "Profile the job again.");
  return factors;
}

ActionJitter read_jitter(const JsonValue& value) {
  return {read_factors(value.at("forward")), read_factors(value.at("backward")),
          read_factors(value.at("backward_input")), read_factors(value.at("backward_weight"))};
}

/// Units cover the operators from 0 on without a gap. Without a label it is that of `named`.
UnitCost read_unit(const JsonValue& value, const std::vector<UnitCost>& before,
                   const std::vector<UnitCost>* named, int operators) {
  UnitCost unit;
  if (value.has("same_as")) {
    unit = entry_before(value, before);
  } else {
    unit.times = read_times(value.at("times"));
    unit.held = read_held(value.at("held_bytes"));
    if (value.has("jitter")) unit.jitter = read_jitter(value.at("jitter"));
  }
  const int begin = before.empty() ? 0 : before.back().end;
  if (!value.has("label") && named && before.size() < named->size()) {
    const UnitCost& same = (*named)[before.size()];
    unit.label = same.label, unit.begin = same.begin, unit.end = same.end;
    if (unit.begin == begin && unit.end <= operators) return unit;
  }
  unit.label = value.text("label");
  unit.begin = value.integer("begin", begin, begin);
  unit.end = value.integer("end", begin + 1, operators);
  return unit;
}

/// Every rank has measured as many, of which variances can be told.
std::vector<std::vector<double>> read_rounds(const JsonValue& value) {
  std::vector<std::vector<double>> rounds;
  for (const JsonValue& rank : value.list()) {
    rounds.push_back(read_factors(rank));
    if (rounds.back().size() >= 2 && rounds.back().size() == rounds.front().size()) continue;
    rank.refuse(fmt::format("{} rounds", rounds.back().size()),
                "Every rank has measured as many, at least two: profile the job again.");
  }
  return rounds;
}

/// All units of a size vary by what was measured, or none does.
void read_noise(const JsonValue& value, MicrobatchCosts& costs) {
  if (value.has("rounds")) costs.rounds = read_rounds(value.at("rounds"));
  for (const UnitCost& unit : costs.units) {
    if (unit.jitter.any() == !costs.rounds.empty()) continue;
    value.refuse(fmt::format("unit `{}` has {}", unit.label,
                             unit.jitter.any() ? "`jitter`, but the size no `rounds`"
                                               : "no `jitter`, but the size has `rounds`"),
                 "Profile the job again.");
  }
}

/// `first`: the size before it that has the operators' names, or null.
MicrobatchCosts read_costs(const JsonValue& value, const MicrobatchCosts* first) {
  MicrobatchCosts costs;
  costs.microbatch = value.integer("microbatch", 1, INT32_MAX);
  for (const JsonValue& op : value.list("operators"))
    costs.operators.push_back(
        read_operator(op, costs.operators, first ? &first->operators : nullptr));
  const int operators = static_cast<int>(costs.operators.size());
  for (const JsonValue& unit : value.list("units"))
    costs.units.push_back(read_unit(unit, costs.units, first ? &first->units : nullptr, operators));
  const int begin = costs.units.empty() ? 0 : costs.units.back().end;
  if (begin != operators) {
    value.at("units").refuse(fmt::format("the units cover {} of {} operators", begin, operators),
                             "Profile the job again.");
  }
  costs.loss_forward = read_measured(value.at("loss_forward"));
  costs.first_microbatch_excess = value.number("first_microbatch_excess");
  if (costs.first_microbatch_excess <= -1) {
    value.at("first_microbatch_excess")
        .refuse(fmt::format("with {} microbatch 0 takes no time", costs.first_microbatch_excess),
                "Profile the job again.");
  }
  costs.load_batch_s = read_amount(value, "load_batch_s");
  read_noise(value, costs);
  return costs;
}

}  // namespace

double read_amount(const JsonValue& value, const std::string& key) {
  const double number = value.number(key);
  if (number < 0)
    value.at(key).refuse(fmt::format("{} is negative", number), "Profile the job again.");
  return number;
}

double read_host_amount(const JsonValue& value, const std::string& key) {
  return value.has(key) ? read_amount(value, key) : 0;
}

int64_t read_bytes(const JsonValue& value, const std::string& key) {
  const int64_t number = value.integer(key);
  if (number < 0)
    value.at(key).refuse(fmt::format("{} is negative", number), "Profile the job again.");
  if (number > most_bytes)
    value.at(key).refuse(fmt::format("{} is more than a pebibyte", number),
                         "Profile the job again.");
  return number;
}

ActionTimes read_times(const JsonValue& value) {
  return {read_measured(value.at("forward")), read_measured(value.at("backward")),
          read_measured(value.at("backward_input")), read_measured(value.at("backward_weight"))};
}

std::vector<MicrobatchCosts> read_microbatches(const JsonValue& of, bool repeats) {
  std::vector<MicrobatchCosts> result;
  const auto sizes = of.list("microbatches");
  if (sizes.empty())
    of.at("microbatches").refuse("no microbatch size was measured", "Profile the job again.");
  for (const JsonValue& value : sizes) {
    result.push_back(read_costs(value, repeats && !result.empty() ? &result.front() : nullptr));
    const bool ascending =
        result.size() < 2 || result[result.size() - 2].microbatch < result.back().microbatch;
    if (ascending) continue;
    value.at("microbatch")
        .refuse(fmt::format("{} does not come after {}", result.back().microbatch,
                            result[result.size() - 2].microbatch),
                "List the microbatch sizes ascending, each once.");
  }
  return result;
}

}  // namespace penstock
