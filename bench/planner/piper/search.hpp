// For a bound on the time of a stage, the plans that keep it are found from the last stage on: for
// every downset the pairs (sum of d, devices) that the stages behind it can have, without those to
// which another is nowhere larger. Fewer of both are never worse for the stages before.
#pragma once

#include <set>
#include <vector>

#include "bench/planner/piper/piper.hpp"
#include "bench/planner/piper/stages.hpp"

namespace penstock::bench {

/// y of piper.hpp.
int samples_in_flight(int samples, int d);

class PiperSearch {
 public:
  /// The graph outlives it.
  PiperSearch(const PiperGraph& graph, Downsets& downsets);

  /// The longest stage's time in a plan with all of them within the bound; infinite if none is.
  double find(double bound_s);
  /// The stages that find() found, in order.
  std::vector<PiperStage> stages() const;

 private:
  struct Candidate {  // a stage that begins behind a downset
    int to;           // the downset with it
    StageOption option;
  };
  /// Plans for the nodes outside a downset.
  struct Behind {
    int samples = 0;  // sum of d
    int devices = 0;
    double longest_s = 0;
    int candidate = -1, d = -1, rest = -1;  // the first stage; the plan behind it, of its `to`
  };
  void list(Downsets& downsets, int from, const std::set<int>& tensor_parallel);
  void extend(int from, int candidate, double bound_s);
  const Behind& fastest() const;
  static void keep(std::vector<Behind>& plans, const Behind& plan);

  PiperStages stages_;
  int devices_, max_samples_;
  std::vector<int> degrees_;                        // that d can have
  std::vector<std::vector<Candidate>> candidates_;  // by the downset before the stage
  std::vector<std::vector<Behind>> behind_;         // by downset
};

}  // namespace penstock::bench
