#include "simulator/adaptive/order_heads.hpp"

#include <algorithm>

namespace penstock {

namespace {

class Heads {
 public:
  Heads(const std::vector<ActionRow>& rows, int ranks, int microbatches)
      : rows_(rows),
        microbatches_(microbatches),
        before_(rows.size(), std::vector<char>(rows.size(), 0)),
        placed_(static_cast<size_t>(ranks)) {}

  OrderHeads run() {
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (const StageLink& link : rows_[row].before) add_before(row, link);
      found_.heads_s.emplace_back();
      found_.bare_s.emplace_back();
      for (int number = 0; number < microbatches_; ++number) add_action(row, number);
      if (rows_[row].more_s > 0)
        place(rows_[row].rank, {found_.heads_s[row][0], rows_[row].more_s, row, microbatches_ - 1});
    }
    return std::move(found_);
  }

 private:
  struct Placed {
    double head_s, work_s;
    size_t row;
    int number;
  };

  void add_before(size_t row, const StageLink& link) {
    const auto from = static_cast<size_t>(link.stage);
    before_[row][from] = 1;
    for (size_t i = 0; i < from; ++i) before_[row][i] |= before_[from][i];
  }

  void add_action(size_t row, int number) {
    const ActionRow& of = rows_[row];
    const double waits_s = this->waits_s(row, number);
    const double loose_s = (number + 1) * own_before_s(row);
    const double head_s = std::max({of.own_s, waits_s, busy_s(row, number, loose_s)});
    const double bare_s =
        of.own_s > 0 ? std::max(waits_s, busy_s(row, number, loose_s - of.own_s)) : head_s;
    found_.heads_s[row].push_back(head_s);
    found_.bare_s[row].push_back(bare_s);
    place(of.rank, {head_s, of.seconds, row, number});
  }

  double own_before_s(size_t row) const {
    double sum_s = rows_[row].own_s;
    for (size_t i = 0; i < row; ++i)
      if (before_[row][i] && rows_[i].rank == rows_[row].rank) sum_s += rows_[i].own_s;
    return sum_s;
  }

  double waits_s(size_t row, int number) const {
    double head_s = 0;
    for (const StageLink& link : rows_[row].before) {
      const auto from = static_cast<size_t>(link.stage);
      head_s = std::max(head_s, found_.heads_s[from][static_cast<size_t>(number)] +
                                    rows_[from].seconds + link.seconds);
    }
    return head_s;
  }

  /// When its rank has done what comes before, of which so much at any time.
  double busy_s(size_t row, int number, double loose_s) const {
    double now_s = loose_s;
    for (const Placed& each : placed_[static_cast<size_t>(rows_[row].rank)]) {
      const bool first = each.row == row || (before_[row][each.row] && each.number <= number);
      if (first) now_s = std::max(now_s, each.head_s) + each.work_s;
    }
    return now_s;
  }

  void place(int rank, const Placed& each) {
    std::vector<Placed>& placed = placed_[static_cast<size_t>(rank)];
    placed.insert(std::ranges::upper_bound(placed, each.head_s, {}, &Placed::head_s), each);
  }

  const std::vector<ActionRow>& rows_;
  const int microbatches_;
  std::vector<std::vector<char>> before_;    // by row, and the row before it
  std::vector<std::vector<Placed>> placed_;  // by rank, by ascending heads
  OrderHeads found_;
};

}  // namespace

OrderHeads order_heads(const std::vector<ActionRow>& rows, int ranks, int microbatches) {
  return Heads(rows, ranks, microbatches).run();
}

}  // namespace penstock
