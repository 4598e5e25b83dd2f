// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace penstock {

/// Calls work(0) … work(count - 1), each once, on that many threads at most, and returns when all
/// are done. What a piece throws is thrown again: that of the first piece that threw.
void in_parallel(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace penstock
