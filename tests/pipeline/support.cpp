#include "tests/pipeline/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "tests/base/support.hpp"

namespace penstock {

Slicing sliced(const Plan& plan, const Graph& model) { return slice(plan, model, analyse(model)); }

std::string refusal(const Plan& plan, const Graph& model) {
  return input_error([&] { sliced(plan, model); });
}

namespace {

/// When each action of a chain of stages ends, by brute force: over and over through the ranks.
class Chart {
 public:
  explicit Chart(const Program& program) : program_(program), rows_(program.ranks.size()) {
    std::vector<size_t> next(program.ranks.size());
    bool progress = true;
    while (progress) {
      progress = false;
      for (size_t rank = 0; rank < next.size(); ++rank) {
        while (next[rank] < program.ranks[rank].size() &&
               place(rank, program.ranks[rank][next[rank]])) {
          ++next[rank];
          progress = true;
        }
      }
    }
  }

  std::string text() const {
    size_t width = 0;
    for (const auto& row : rows_) width = std::max(width, row.size());
    std::string text;
    for (auto row : rows_) {
      row.resize(width, ".");
      std::string line;
      for (const std::string& cell : row) line += fmt::format("{:3}", cell);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  bool place(size_t rank, const Action& action) {
    std::vector<Action> parts;
    for_each_part(action, [&](const Action& part) { parts.push_back(part); });
    size_t end = rows_[rank].size();
    for (const Action& part : parts) {
      const std::optional<size_t> ready = ready_at(part);
      if (!ready) return false;
      end = std::max(end, *ready);
    }
    rows_[rank].resize(end, ".");
    for (const Action& part : parts) {
      end += part.kind == Kind::backward ? 2 : 1;
      rows_[rank].resize(end, fmt::format("{}{}", letter(part), part.microbatch));
    }
    for (const Action& part : parts) {
      if (part.kind == Kind::backward_weight) continue;
      end_[{part.stage, part.kind == Kind::forward, part.microbatch}] = end;
    }
    return true;
  }

  /// When what the action needs is there; nothing while that is not known.
  std::optional<size_t> ready_at(const Action& action) const {
    const bool forward = action.kind == Kind::forward;
    const int before = forward ? action.stage - 1 : action.stage + 1;
    const bool needs =
        forward ? before >= 0
                : before < program_.stage_count() && action.kind != Kind::backward_weight;
    if (!needs) return 0;
    const auto found = end_.find({before, forward, action.microbatch});
    return found == end_.end() ? std::nullopt : std::optional(found->second);
  }

  /// `F`, and `f` for the second stage of a rank.
  std::string letter(const Action& action) const {
    const auto first = std::ranges::find(program_.rank_of_stage,
                                         program_.rank_of_stage[static_cast<size_t>(action.stage)]);
    std::string text(name(action.kind));
    const bool later = first - program_.rank_of_stage.begin() != action.stage;
    if (later) text[0] = static_cast<char>(std::tolower(text[0]));
    return text;
  }

  const Program& program_;
  std::vector<std::vector<std::string>> rows_;
  std::map<std::tuple<int, bool, int>, size_t> end_;
};

}  // namespace

std::string draw(const Program& program) { return Chart(program).text(); }

int max_held(const std::vector<Action>& actions) {
  int held = 0;
  int most = 0;
  for (const Action& action : actions) {
    for_each_part(action, [&](const Action& part) {  // of an overlap the forward first
      held += part.kind == Kind::forward;
      most = std::max(most, held);
      held -= part.kind == Kind::backward || part.kind == Kind::backward_weight;
    });
  }
  return most;
}

}  // namespace penstock
