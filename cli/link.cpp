#include "cli/link.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "cli/report/ending.hpp"
#include "cli/report/table.hpp"
#include "cli/report/terminal.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/worker_options.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

namespace {

void check_link(const ProfileOptions& options, int ranks) {
  if (!options.job.empty()) {
    throw InputError("--link", "measures no job, and " + options.job + " is one",
                     "Leave one of them out.");
  }
  if (options.workers.device != "cpu") {
    throw InputError("--link",
                     "measures what hosts exchange, not devices of " + options.workers.device,
                     "Leave out --device; a job's profile with --device cuda has a link of GPUs.");
  }
  if (ranks < 2) {
    throw InputError("--link", "one rank has no link", "Start two, on the nodes to measure.");
  }
}

std::string cluster_file(const nlohmann::json& link, int ranks) {
  std::string text = fmt::format(
      "penstock: cluster\n"
      "# Measured by penstock profile --link between ranks 0 and 1: one way, median.\n");
  for (const auto& [bytes, seconds] :
       link.at("samples").get<std::vector<std::pair<int64_t, double>>>()) {
    text += fmt::format("#   {:>8} bytes  {:>10}\n", bytes, format_seconds(seconds));
  }
  text +=
      fmt::format("ranks: {}\nlink:\n  latency: {}\n", ranks, link.at("latency_s").get<double>());
  if (const double bandwidth = link.at("bandwidth"); bandwidth > 0) {
    text += fmt::format("  bandwidth: {}\n", bandwidth);
  }
  for (const char* key : {"sender_s_per_byte", "receiver_s_per_byte"}) {
    text += fmt::format("  {}: {}\n", key, link.at(key).get<double>());
  }
  // Between ranks of one machine the receiver copies, when it comes to its RECV.
  return text + "  send: posted\n" + (link.at("kind") == "local" ? "  receive_depth: 0\n" : "");
}

}  // namespace

int measure_link(const ProfileOptions& options) {
  const std::optional<Launcher> launcher = find_launcher(process_environment());
  const int ranks = launcher ? launcher->world_size : options.ranks.value_or(2);
  std::vector<WorkerTask> tasks;
  or_tell_others(launcher, [&] {
    check_link(options, ranks);
    tasks = with_options(
        make_tasks({.launcher = launcher,
                    .rank_of_process = as_numbered(ranks),
                    .command = "link",
                    .facts = {{"version", PENSTOCK_VERSION}, {"command", "profile --link"}}}),
        options.workers);
  });
  Workers workers(tasks, [](int, int) { return std::string(); });
  nlohmann::json link;
  const auto failure = workers.run([&](size_t, const nlohmann::json& event) {
    if (event.at("event") == "link") link = event;
  });
  if (failure) {
    fmt::print(stderr, "penstock: {}\n", failure->message);
    return failure->status;
  }
  if (launcher && launcher->rank != 0) return 0;
  write_file(options.output, cluster_file(link, ranks));
  const double bandwidth = link.at("bandwidth");
  const std::string cost =
      fmt::format("between ranks 0 and 1: {} + bytes / {}, off by {:.0f} % (median)",
                  format_seconds(link.at("latency_s").get<double>()),
                  bandwidth > 0 ? format_bytes_per_second(bandwidth) : "any bandwidth",
                  100 * link.at("residual").get<double>());
  fmt::print(
      "{}{}", labelled("link", cost, terminal_columns()),
      ending({options.output}, {fmt::format("penstock plan profile.json --cluster {} -o plan.yaml",
                                            in_shell(options.output))}));
  return 0;
}

}  // namespace penstock::cli
