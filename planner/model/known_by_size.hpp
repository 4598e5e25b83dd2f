// Values that are found once for each microbatch size and shared by all layouts of a search.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace penstock {

/// For any number of threads.
template <typename Value>
class KnownBySize {
 public:
  template <typename Find>
  const Value& of(int64_t microbatch, Find find) {
    const std::lock_guard lock(mutex_);
    const auto known = values_.find(microbatch);
    return known != values_.end() ? known->second
                                  : values_.emplace(microbatch, find()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, Value> values_;
};

}  // namespace penstock
