// Results as a table for people, or as one JSON object per line.
#pragma once

#include <optional>
#include <string>

#include "bench/planner/peer_file.hpp"

namespace penstock::bench {

struct PeerRow {
  std::string file;  // as given
  Setting setting;
  std::optional<double> published;
  PeerResult result;
};

std::string peer_heading();
std::string peer_table_line(const PeerRow& row);
/// `published` is there if it is known, `value` null where nothing fits.
std::string peer_json_line(const PeerRow& row);

}  // namespace penstock::bench
