#include "cli/workers/onednn_isa.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/workers/launch.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

namespace {

namespace fs = std::filesystem;

struct Limit {
  const char *name, *trapped, *used;
};
constexpr const char* kUnlimited = "ALL";
constexpr int kInterrupted = 128;  // the exit status is this plus the signal's number
/// From the mildest on. Also in python/penstock/exporter/cpu.py.
constexpr std::array<Limit, 3> kLimits{{{"AVX512_CORE_FP16", "AMX", "AVX-512"},
                                        {"AVX512_CORE", "AVX512-BF16", "AVX-512 in float32"},
                                        {"AVX2", "AVX-512", "AVX2"}}};

const Limit* find_limit(const std::string& name) {
  const auto found = std::ranges::find(kLimits, name, &Limit::name);
  return found == kLimits.end() ? nullptr : &*found;
}

bool computes_in_bf16(const Graph& model) {
  return std::ranges::any_of(model.values,
                             [](const Value& value) { return value.dtype == DType::bfloat16; });
}

/// This boot's file, which the exporter reads and writes as well.
fs::path cache_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path folder =
      cache != nullptr && *cache != '\0' ? fs::path(cache) : fs::path(home ? home : "") / ".cache";
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return folder / "penstock" / ("onednn-isa-" + boot);
}

std::string cached() {
  std::string limit;
  std::ifstream(cache_file()) >> limit;
  return limit == kUnlimited || find_limit(limit) != nullptr ? limit : "";
}

/// Where it cannot be written the next process tries again.
void remember(const std::string& limit) {
  std::error_code ignored;
  fs::create_directories(cache_file().parent_path(), ignored);
  try {
    write_file(cache_file(), limit + "\n");
  } catch (const InputError&) {
  }
}

bool multiplies_within(const char* limit) {
  setenv(kOnednnVariable, limit, 1);
  Workers worker(make_tasks({.rank_of_process = as_numbered(1), .command = "multiply_bf16"}),
                 [](int, int) { return std::string(); });
  const auto failure = worker.run([](size_t, const nlohmann::json&) {});
  if (failure && failure->status > kInterrupted) {  // by a person: that says nothing of the product
    fmt::print(stderr, "penstock: {}\n", failure->message);
    std::exit(failure->status);
  }
  return !failure;
}

/// The mildest limit that helps; "" where none does, for then something else is wrong, and the run
/// will say what.
std::string find() {
  if (multiplies_within(kUnlimited)) return kUnlimited;
  for (const Limit& limit : kLimits) {
    if (multiplies_within(limit.name)) return limit.name;
  }
  return "";
}

}  // namespace

void limit_onednn(const Graph& model, bool quiet) {
  if (!computes_in_bf16(model) || std::getenv(kOnednnVariable) != nullptr) return;
  std::string name = cached();
  if (name.empty() && !(name = find()).empty()) remember(name);
  if (name.empty() || name == kUnlimited) {
    unsetenv(kOnednnVariable);
    return;
  }
  setenv(kOnednnVariable, name.c_str(), 1);
  const Limit& limit = *find_limit(name);
  if (quiet) return;
  fmt::print(stderr, "this machine traps in {}: bf16 uses {} ({}={})\n", limit.trapped, limit.used,
             kOnednnVariable, name);
}

}  // namespace penstock::cli
