// A checkpoint that several supervisors write, each from the snapshots of its ranks; without others
// there is one part.
#include <memory>
#include <stdexcept>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

using Json = nlohmann::json;
using namespace std::chrono_literals;

/// A snapshot before that step for each rank of a replica; nothing where nobody has one of a rank.
std::optional<Workers::Parts> Workers::parts_of(const HeldByProcess& holders, int64_t step) const {
  const int ranks = options_.program->rank_count();
  Parts parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<Source> source = find_source(holders, rank, step, /*alike=*/ranks);
    if (!source) return std::nullopt;
    parts[source->process][rank] = source->held;
  }
  return parts;
}

OtherParts Workers::other_parts(int64_t step, const Parts& parts) {
  std::map<int, Json> orders;
  for (const auto& [process, ranks] : parts) {
    if (process != process_) orders[process] = {{"tell", "save"}, {"step", step}, {"ranks", ranks}};
  }
  if (orders.empty()) return {};
  pending_.emplace().step = step;
  for (const auto& [process, order] : orders) pending_->processes.insert(process);
  const std::shared_future<CheckpointFiles> all = pending_->all.get_future();
  return {.begin =
              [this, orders = std::move(orders)] {
                for (const auto& [process, order] : orders) fleet_->send(process, order);
              },
          .finish =
              [all](const std::stop_token& stop) {
                while (all.wait_for(20ms) != std::future_status::ready)
                  if (stop.stop_requested()) throw std::runtime_error("the run was ended");
                return all.get();
              }};
}

/// As the leader asks for.
void Workers::begin_part(const Json& order, const Listener& listener) {
  if (saver_.step()) end_saving(listener);  // one that the leader has given up
  const int64_t step = order.at("step");
  const auto ranks = order.at("ranks").get<std::map<int, int>>();
  saver_.begin(step,
               [this, step, snapshots = snapshots_of(ranks, step)](const std::stop_token& stop) {
                 part_ = options_.save_part(step, snapshots, stop);
               });
}

void Workers::end_part() {
  const int64_t step = saver_.step().value();
  const std::string problem = saver_.finish();
  fleet_->send({{"tell", "written"}, {"step", step}, {"files", part_}, {"problem", problem}});
  part_.clear();
}

void Workers::take_part(int process, const Json& message) {
  if (!pending_ || pending_->step != message.at("step") || !pending_->processes.erase(process))
    return;
  const std::string problem = message.at("problem");
  pending_->files.merge(message.at("files").get<CheckpointFiles>());
  if (!problem.empty()) {
    pending_->all.set_exception(std::make_exception_ptr(std::runtime_error(problem)));
  } else if (pending_->processes.empty()) {
    pending_->all.set_value(std::move(pending_->files));
  } else {
    return;
  }
  pending_.reset();
}

void Workers::lose_part(int process) {
  if (!pending_ || !pending_->processes.contains(process)) return;
  pending_->all.set_exception(
      std::make_exception_ptr(std::runtime_error("who was to write a part of it is gone")));
  pending_.reset();
}

}  // namespace penstock::cli
