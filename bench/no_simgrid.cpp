// Where SimGrid is missing its rows say so.
#include "bench/measure.hpp"

namespace penstock::bench {

Row measure_simgrid(const Study& study, int) {
  return {.simulator = "SimGrid",
          .study = study,
          .skipped = "not there when this was built: Debian package libsimgrid-dev"};
}

}  // namespace penstock::bench
