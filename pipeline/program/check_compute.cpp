// Proves that a program computes each microbatch of each stage exactly once.
#include <fmt/format.h>

#include "base/error.hpp"
#include "pipeline/program/check.hpp"
#include "pipeline/program/flow_table.hpp"

namespace penstock {

namespace {

enum Done : uint8_t { did_f = 1, did_b = 2, did_i = 4, did_w = 8 };

class ComputeCheck {
 public:
  ComputeCheck(const Program& program, std::string_view place) : program_(program), place_(place) {}

  void run() {
    check_shape();
    for (rank_ = 0; rank_ < program_.rank_count(); ++rank_) {
      for (const Action& action : program_.ranks[static_cast<size_t>(rank_)]) {
        if (action.kind == Kind::overlap && !is_input_backward(action.backward_kind)) {
          refuse(action, "is no overlap", "An overlap is one F, then one B or I.");
        }
        for_each_part(action, [&](const Action& part) { see(part); });
      }
    }
    check_complete();
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, std::string_view cure) const {
    throw InputError(place_, problem, cure);
  }

  [[noreturn]] void refuse(const Action& action, const std::string& problem,
                           std::string_view cure) const {
    refuse(fmt::format("rank {}: {} {}", rank_, to_string(action), problem), cure);
  }

  /// Before memory is taken for stages x microbatches: there are at least that many actions.
  void check_shape() {
    size_t actions = 0;
    for (const auto& row : program_.ranks) actions += row.size();
    for (int rank : program_.rank_of_stage) {
      if (rank < 0 || rank >= program_.rank_count()) {
        refuse(fmt::format("a stage is on rank {} of {}", rank, program_.rank_count()),
               "Place every stage on a rank of the program.");
      }
    }
    const auto stages = static_cast<size_t>(program_.stage_count());
    const auto microbatches = static_cast<size_t>(std::max(program_.microbatches, 0));
    if (stages == 0 || microbatches == 0 || microbatches > actions / stages) {
      refuse(fmt::format("{} actions cannot run {} microbatches on each of {} stages", actions,
                         microbatches, stages),
             "Every stage needs its F for every microbatch from 0 on.");
    }
    done_.resize(stages * microbatches);
  }

  void see(const Action& action) {
    if (action.stage < 0 || action.stage >= program_.stage_count()) {
      refuse(action, fmt::format("has stage {} of {}", action.stage, program_.stage_count()),
             "Number the stages 0, 1, 2, … along the model.");
    }
    const int rank = program_.rank_of_stage[static_cast<size_t>(action.stage)];
    if (rank != rank_) {
      refuse(action, fmt::format("is of a stage that belongs to rank {}", rank),
             "Move it to that rank.");
    }
    if (!is_compute(action.kind)) return;
    if (action.microbatch < 0 || action.microbatch >= program_.microbatches) {
      refuse(action, fmt::format("has a microbatch outside 0..{}", program_.microbatches - 1),
             "Number the microbatches from 0.");
    }
    advance(action, done_[cell(action.stage, action.microbatch)]);
  }

  void advance(const Action& action, uint8_t& done) {
    if (action.kind == Kind::forward) {
      if (done & did_f) refuse(action, "runs twice", "Remove one of them.");
      done |= did_f;
      return;
    }
    any_backward_ = true;
    if (!(done & did_f)) refuse(action, "comes before its F", "Move it behind.");
    if (action.kind == Kind::backward_weight) {
      if (done & did_w) refuse(action, "runs twice", "Remove one of them.");
      if (!(done & did_i)) refuse(action, "comes before its I", "Move it behind.");
      done |= did_w;
      return;
    }
    if (done & (did_b | did_i)) {
      refuse(action, "is a second backward of this microbatch", "Keep one B, or one I and one W.");
    }
    done |= action.kind == Kind::backward ? did_b : did_i;
  }

  void check_complete() const {
    for (int stage = 0; stage < program_.stage_count(); ++stage) {
      for (int m = 0; m < program_.microbatches; ++m) {
        const uint8_t done = done_[cell(stage, m)];
        if (!(done & did_f)) missing(stage, Kind::forward, m);
        if (any_backward_ && !(done & (did_b | did_i))) missing(stage, Kind::backward, m);
        if ((done & did_i) && !(done & did_w)) missing(stage, Kind::backward_weight, m);
      }
    }
  }

  [[noreturn]] void missing(int stage, Kind kind, int microbatch) const {
    const int rank = program_.rank_of_stage[static_cast<size_t>(stage)];
    const std::string cure =
        kind == Kind::backward ? "Add it, or its I and W, to the rank." : "Add it to the rank.";
    refuse(fmt::format("rank {}: {} is missing", rank, to_string({stage, kind, microbatch})), cure);
  }

  size_t cell(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(program_.microbatches) +
           static_cast<size_t>(microbatch);
  }

  const Program& program_;
  const std::string_view place_;
  int rank_ = 0;
  bool any_backward_ = false;
  std::vector<uint8_t> done_;  // by stage and microbatch
};

}  // namespace

void check_compute(const Program& program, std::string_view place) {
  ComputeCheck(program, place).run();
}

}  // namespace penstock
