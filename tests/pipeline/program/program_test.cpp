#include "pipeline/program/program.hpp"

#include <gmock/gmock.h>

#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ProgramCsv, ReadsWhatTorchWrites) {
  // As Python's csv module ends its lines, with idle slots.
  const Program program = parse_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n", "p.csv");
  EXPECT_EQ(program.microbatches, 2);
  EXPECT_THAT(program.rank_of_stage, ElementsAre(0, 1));
  EXPECT_EQ(to_csv(program), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(ProgramCsv, RanksOfStagesFollowFromTheRows) {
  const Program program = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0", "p.csv");
  EXPECT_THAT(program.rank_of_stage, ElementsAre(0, 1, 1, 0));
}

TEST(ProgramCsv, AnOverlapCountsAllItsStages) {
  const Program program = parse_csv("0F0,0F1,(1F0;1B0)OVERLAP_F_B,0B0", "p.csv");
  EXPECT_THAT(program.rank_of_stage, ElementsAre(0, 0));
  EXPECT_EQ(program.ranks[0][2].kind, Kind::overlap);
}

TEST(ProgramCsv, RoundTripsLoweredPrograms) {
  const std::string text =
      "0F0,0SEND_F0,0SEND_F0:2,0RECV_B0:2,0RECV_B0,0B0,0REDUCE_GRAD,0OPT\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0,1OPT\n"
      "2RECV_F0:0,2RECV_F0,2F0,2B0,2SEND_B0,2SEND_B0:0,2REDUCE_GRAD,2OPT\n";
  EXPECT_EQ(to_csv(parse_csv(text, "p.csv")), text);
}

TEST(ProgramCsv, MistakesAreRefusedWithFileAndRow) {
  EXPECT_THAT(
      input_error([] { parse_csv("0F0,1F0\n1F1", "p.csv"); }),
      AllOf(StartsWith("p.csv: row 2: `1F1` puts stage 1 on rank 1, but row 1 has it on rank 0"),
            HasSubstr("one row")));
  EXPECT_THAT(input_error([] { parse_csv("0F0\n2F0", "p.csv"); }),
              StartsWith("p.csv: row 2: stage 2 has actions, but stage 1 has none"));
  EXPECT_THAT(input_error([] { parse_csv("1F0", "p.csv"); }), HasSubstr("stage 0 has none"));
  EXPECT_THAT(input_error([] { parse_csv("0F0\n1Q0", "p.csv"); }),
              StartsWith("p.csv: row 2: `1Q0`"));
  EXPECT_THAT(input_error([] { parse_csv("0F0\n,,\n1F0", "p.csv"); }),
              StartsWith("p.csv: row 2: the row has no action"));
  EXPECT_THAT(input_error([] { parse_csv(" \n\n", "p.csv"); }),
              StartsWith("p.csv: the program is empty"));
}

TEST(ProgramCsv, ADamagedFileIsNeverMoreThanAnInputError) {
  const std::string text =
      "0F0,0SEND_F0:2,(0F1;3B0)OVERLAP_F_B,0RECV_B0:2,0B0,0REDUCE_GRAD,0OPT\n1F0,1I0,1W0,1SEND_"
      "F0\n";
  int refused = 0;
  for (const std::string& version : damaged(text, 600)) {
    std::string message;
    EXPECT_NO_THROW(message = input_error([&] { parse_csv(version, "p.csv"); })) << version;
    refused += !message.empty();
  }
  EXPECT_GT(refused, 300) << "most damage shows";
}

}  // namespace
}  // namespace penstock
