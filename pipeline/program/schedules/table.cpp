// The table of schedules: one line each.
#include "pipeline/program/schedule.hpp"

namespace penstock {

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> table = {
      gpipe,             //
      one_f_one_b,       //
      looped_bfs,        //
      interleaved_1f1b,  //
      interleaved_zb,    //
      zb_h1,             //
      zb_h2,             //
      zbv,               //
      dualpipev,         //
  };
  return table;
}

}  // namespace penstock
