// Writes a made-up profile for the tests of the command line, which have no profiler:
//   synthetic-profile MODEL.pt2 OUT.json GLOBAL_BATCH SIZE…
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "graph/pt2/pt2.hpp"
#include "tests/planner/synthetic_profile.hpp"

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: synthetic-profile MODEL.pt2 OUT.json GLOBAL_BATCH SIZE...\n", stderr);
    return 2;
  }
  try {
    const penstock::Graph model = penstock::read_pt2(argv[1]);
    std::vector<int64_t> sizes;
    for (int i = 4; i < argc; ++i) sizes.push_back(std::stoll(argv[i]));
    const int64_t global_batch = std::stoll(argv[3]);
    penstock::test::written(penstock::test::synthetic_profile(model, sizes, global_batch), argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
