// The microbatch sizes of a model, or of what a tensor group's ranks run, measured one after the
// other as far as time and memory allow.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/profiler/measure_size.hpp"
#include "backend/profiler/profiler.hpp"
#include "backend/profiler/subject.hpp"
#include "backend/profiler/timing/budget.hpp"

namespace penstock::profiler {

class SizeSeries {
 public:
  struct Reports {
    std::function<void(const std::string& what, double share)> progress;  // of the series
    std::function<void(const std::string& message)> warning;
    std::function<void(SizeResult&& result)> measured;
  };

  /// `of`: ` of 2 parts`, for messages; "" of a whole model. All references outlive it.
  SizeSeries(const Request& request, Communicator& communicator, Subject& subject, std::string of,
             Reports reports);

  /// Measures those of these sizes, in their order, that are `wanted` and not `known` yet; all of
  /// them share the time. Warns of those that are `left_out` already, or for which there is no
  /// memory or no time. All ranks decide alike.
  void run(const std::vector<int64_t>& sizes, const std::vector<int64_t>& wanted,
           const std::vector<MicrobatchCosts>& known, std::vector<int64_t> left_out,
           double accumulate_s_per_byte);

 private:
  bool is_too_long(size_t i, double began_s);
  bool fits(int64_t size);
  void warn_of_sizes_left_out(std::vector<int64_t> sizes) const;
  double allowed_steps(size_t i) const;
  std::optional<SizeResult> measured(size_t i, const std::function<void(double)>& progress);
  void measure(size_t i, double done, double part);

  const Request& request_;
  Communicator& communicator_;
  Subject& subject_;
  const std::string of_;
  const Reports reports_;
  Budget budget_;
  std::vector<int64_t> sizes_;
  double accumulate_s_per_byte_ = 0;
  int64_t too_large_ = std::numeric_limits<int64_t>::max();  // there is no memory for it
};

}  // namespace penstock::profiler
