#include "cli/inputs/resumed.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "pipeline/checkpoint/saved.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

/// Without links, and whether or not it is there.
fs::path place(const fs::path& folder) { return fs::weakly_canonical(fs::absolute(folder) / ""); }

}  // namespace

bool may_begin(const ExecuteOptions& options) {
  return !options.save.empty() && !options.resume.empty() &&
         place(options.resume) == place(options.save);
}

RunBegin find_begin(const ExecuteOptions& options, const CheckedRun& checked) {
  RunBegin begin;
  if (options.resume.empty()) return begin;
  const fs::path folder = fs::absolute(options.resume);
  const auto found = may_begin(options) ? find_intact(folder) : require_intact(folder);
  if (!found) {
    begin.notes = {fmt::format("{} holds no checkpoint yet: starting anew", options.resume)};
    return begin;
  }
  check_goes_on(found->path, found->manifest, checked.plan, checked.graph.sha256);
  begin.step = checked.plan.job.forward_only ? 0 : found->manifest.step;
  begin.checkpoint = found->path.string();
  begin.damaged = found->damaged;
  begin.notes = found->warnings;
  return begin;
}

}  // namespace penstock::cli
