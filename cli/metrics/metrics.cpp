#include "cli/metrics/metrics.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"

namespace penstock::cli {

std::vector<std::string> Metrics::write(const nlohmann::ordered_json& line) {
  std::vector<std::string> messages;
  std::erase_if(files_, [&](const std::unique_ptr<MetricsFile>& file) {
    try {
      file->write(line);
      return false;
    } catch (const InputError& error) {
      messages.push_back(fmt::format("{}\n  Training goes on without it.", error.what()));
      return true;
    }
  });
  return messages;
}

}  // namespace penstock::cli
