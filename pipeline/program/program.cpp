// Programs as torch.distributed.pipelining's CSV.
#include "pipeline/program/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "pipeline/program/torch_csv.hpp"

namespace penstock {

namespace {

std::string row_place(std::string_view place, size_t row) {
  return fmt::format("{}: row {}", place, row + 1);
}

/// The rank and a sample action of every stage seen, and the largest microbatch.
class Stages {
 public:
  void see(const Action& action, int rank, const std::string& place) {
    if (action.kind == Kind::overlap) see(backward_part(action), rank, place);
    microbatches_ = std::max(microbatches_, action.microbatch + 1);
    const auto [found, added] = rank_of_.emplace(action.stage, rank);
    if (!added && found->second != rank) {
      throw InputError(
          place,
          fmt::format("`{}` puts stage {} on rank {}, but row {} has it on rank {}",
                      to_string(action), action.stage, rank, found->second + 1, found->second),
          "A stage belongs to one rank: move its actions into one row.");
    }
  }

  std::vector<int> rank_of_stage(std::string_view place) const {
    std::vector<int> result;
    for (const auto& [stage, rank] : rank_of_) {
      if (stage != static_cast<int>(result.size())) {
        throw InputError(row_place(place, static_cast<size_t>(rank)),
                         fmt::format("stage {} has actions, but stage {} has none in any row",
                                     stage, result.size()),
                         "Number the stages 0, 1, 2, … along the model.");
      }
      result.push_back(rank);
    }
    return result;
  }

  int microbatches() const { return microbatches_; }

 private:
  std::map<int, int> rank_of_;
  int microbatches_ = 0;
};

std::vector<Action> parse_row(std::string_view line, const std::string& place) {
  std::vector<Action> actions;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = trim(line.substr(begin, end - begin));
    if (!cell.empty() && !concerns_torch_alone(cell)) actions.push_back(parse_action(cell, place));
    begin = end + 1;
  }
  if (actions.empty())
    throw InputError(place, "the row has no action", "Every rank needs a stage.");
  return actions;
}

}  // namespace

int64_t Program::action_count() const {
  int64_t sum = 0;
  for (const std::vector<Action>& actions : ranks) sum += static_cast<int64_t>(actions.size());
  return sum;
}

Program compute_only(Program program) {
  for (std::vector<Action>& actions : program.ranks) {
    std::erase_if(actions, [](const Action& action) { return !is_compute(action.kind); });
  }
  return program;
}

std::string to_csv(const Program& program) {
  std::string text;
  for (const std::vector<Action>& actions : program.ranks) {
    std::string_view separator;
    for (const Action& action : actions) {
      text.append(separator).append(to_string(action));
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

Program parse_csv(std::string_view text, std::string_view place) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  if (text.empty())
    throw InputError(place, "the program is empty", "Write a row of actions per rank.");
  Program program;
  Stages stages;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string row = row_place(place, program.ranks.size());
    program.ranks.push_back(parse_row(text.substr(begin, end - begin), row));
    for (const Action& action : program.ranks.back()) {
      stages.see(action, program.rank_count() - 1, row);
    }
    begin = end + 1;
  }
  program.rank_of_stage = stages.rank_of_stage(place);
  program.microbatches = stages.microbatches();
  return program;
}

}  // namespace penstock
