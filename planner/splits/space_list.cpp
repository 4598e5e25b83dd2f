#include "planner/splits/space_list.hpp"

#include <algorithm>
#include <iterator>

namespace penstock {

namespace {

SplitRank rank_of(const SearchSpace& space, const SplitSearch& search) {
  return order_of(space, search).bound(space.bound_s, space.bytes);
}

bool may_hold_any(const SearchSpace& space, const SplitSearch& search) {
  return order_of(space, search).may_admit(space.bound_s, space.bytes);
}

/// No number of it is greater than of either.
void lower_to(const SearchSpace& other, SearchSpace& least) {
  least.bound_s = std::min(least.bound_s, other.bound_s);
  least.bytes = std::min(least.bytes, other.bytes);
  least.complexity = std::min(least.complexity, other.complexity);
  least.weight = std::min(least.weight, other.weight);
}

}  // namespace

SpaceBlock space_block(SpaceBlock::List list, const SplitSearch& search) {
  SpaceBlock block;
  for (SearchSpace& space : list()) {
    ++block.count;
    if (!may_hold_any(space, search)) continue;
    const SplitRank rank = rank_of(space, search);
    const double guess_s = space.weight * space.guess_s;
    const auto [guess, first] = block.guesses_s.try_emplace(space.group, guess_s);
    guess->second = std::min(guess->second, guess_s);
    block.rank = block.least ? std::min(block.rank, rank) : rank;
    if (block.least)
      lower_to(space, *block.least);
    else
      block.least = std::move(space);
  }
  if (block.least) block.least->open = nullptr;
  block.list = std::move(list);
  return block;
}

SpaceList::SpaceList(const std::vector<SpaceBlock>& blocks, const SplitSearch& search)
    : blocks_(blocks), search_(search) {
  size_t begin = 0;
  for (const SpaceBlock& block : blocks) {
    begins_.push_back(begin);
    if (block.least) {
      const Entry entry{block.rank, begin, Kind::block};
      tops_.add(entry);
      for (const auto& [group, guess_s] : block.guesses_s) guesses_[group].add({guess_s, entry});
    }
    begin += block.count;
  }
}

/// Its place in the list.
size_t SpaceList::block_of(size_t number) const {
  return static_cast<size_t>(std::ranges::upper_bound(begins_, number) - begins_.begin()) - 1;
}

const SearchSpace& SpaceList::operator[](size_t number) const {
  const size_t begin = begins_[block_of(number)];
  return listed_.at(begin)[number - begin];
}

bool SpaceList::gone(const Entry& entry, const Dead& dead) const {
  const auto& [rank, number, kind] = entry;
  return (kind == Kind::block && listed_.contains(number)) || dead({rank, number});
}

void SpaceList::list(size_t first) {
  const std::vector<SearchSpace>& spaces =
      listed_.emplace(first, blocks_[block_of(first)].list()).first->second;
  for (size_t i = 0; i < spaces.size(); ++i) {
    const SearchSpace& space = spaces[i];
    if (!may_hold_any(space, search_)) continue;
    const Entry entry{rank_of(space, search_), first + i, Kind::space};
    tops_.add(entry);
    guesses_[space.group].add({space.weight * space.guess_s, entry});
  }
}

std::vector<SpaceList::Top> SpaceList::best(const Dead& dead) {
  const auto is_block = [](const Entry& entry) { return std::get<Kind>(entry) == Kind::block; };
  for (;;) {
    const std::vector<Entry>& first =
        tops_.first(round_width, [&](const Entry& entry) { return gone(entry, dead); });
    const auto block = std::ranges::find_if(first, is_block);
    if (block != first.end()) {
      list(std::get<size_t>(*block));
      continue;
    }
    std::vector<Top> tops;
    for (const auto& [rank, number, kind] : first) tops.emplace_back(rank, number);
    return tops;
  }
}

const std::vector<SpaceList::Guess>& SpaceList::first_of(Least<Guess>& guesses, const Dead& dead) {
  return guesses.first(round_width, [&](const Guess& guess) { return gone(guess.second, dead); });
}

/// A block that may have one of the least guesses.
std::optional<size_t> SpaceList::unlisted(const Dead& dead) {
  for (auto& [group, guesses] : guesses_) {
    for (const auto& [guess_s, entry] : first_of(guesses, dead))
      if (std::get<Kind>(entry) == Kind::block) return std::get<size_t>(entry);
  }
  return std::nullopt;
}

std::vector<size_t> SpaceList::promising(const Dead& dead) {
  while (const auto block = unlisted(dead)) list(*block);
  std::map<size_t, Guess> best;  // by group
  std::vector<Guess> all;
  for (auto& [group, guesses] : guesses_) {
    const std::vector<Guess>& first = first_of(guesses, dead);
    for (const auto& [guess_s, entry] : first) all.emplace_back(guess_s * correction(group), entry);
    if (!first.empty()) best.emplace(group, all[all.size() - first.size()]);
  }
  std::vector<Guess> order = of_groups(best);
  const size_t width = std::min(round_width, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(width));
  order.insert(order.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(width));
  std::vector<size_t> spaces;
  spaces.reserve(order.size());
  for (const auto& [guess_s, entry] : order) spaces.push_back(std::get<size_t>(entry));
  return spaces;
}

std::vector<SpaceList::Guess> SpaceList::of_groups(const std::map<size_t, Guess>& best) const {
  std::vector<Guess> order;
  for (const bool tried : {false, true}) {
    const auto from = static_cast<std::ptrdiff_t>(order.size());
    for (const auto& [group, guess] : best) {
      if (taken_.contains(group) == tried) order.push_back(guess);
    }
    std::sort(order.begin() + from, order.end());
  }
  order.resize(std::min(order.size(), round_of_groups));
  return order;
}

/// 1 of a group not yet tried.
double SpaceList::correction(size_t group) const {
  const auto seen = taken_.find(group);
  if (seen == taken_.end()) return 1;
  const auto vain = in_vain_.find(group);
  const double effort = vain == in_vain_.end() ? 0 : static_cast<double>(vain->second);
  return seen->second.first / static_cast<double>(seen->second.second) *
         (1 + vain_share * effort / static_cast<double>(search_.effort));
}

void SpaceList::each(const Dead& dead, const std::function<void(const SearchSpace&)>& call) const {
  tops_.each([&](const Entry& entry) {
    if (gone(entry, dead)) return;
    const auto& [rank, number, kind] = entry;
    call(kind == Kind::block ? *blocks_[block_of(number)].least : (*this)[number]);
  });
}

}  // namespace penstock
