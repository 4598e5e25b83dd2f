// The key-value store through which the ranks of a run find each other, agree and report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace penstock {

class SharedStore {
 public:
  virtual ~SharedStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Blocks until some rank has set it. Throws PeerError if the store is gone or 10 minutes passed.
  virtual std::string get(const std::string& key) = 0;
  /// As `get`, but returns nothing where no rank has set it within `seconds`.
  virtual std::optional<std::string> get_within(const std::string& key, double seconds) = 0;
  /// Appends to the value of `key`. Throws PeerError.
  virtual void append(const std::string& key, const std::string& value) = 0;
};

/// The address of a store. Keys of different runs or restarts differ by `prefix`.
struct StoreAddress {
  std::string host = "127.0.0.1";
  int port = 0;
  bool serve = false;  // this process hosts it, at `port`, or at a free one if that is 0
  std::string prefix;
  double timeout_s = 600;  // for the rank that hosts it to start
};

}  // namespace penstock
