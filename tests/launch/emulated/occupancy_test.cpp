// SPDX-License-Identifier: Apache-2.0
// Multiprocessors of an emulated GPU with as many as an H100: what NCCL's kernels hold while
// matmuls run, and how many matmuls take a second wave because of it (HeldProcessors).
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "tests/launch/fixture/emulated_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class Occupancy : public EmulatedTest {
 protected:
  struct Seen {
    long matmuls = 0, beside = 0, second_waves = 0;  // of all ranks
    int held = 0;                                    // at once, on one of them
  };
  Seen seen(int ranks, const std::string& layout) {
    const CommandResult ran = train_layout(
        gpt({"data.validation_path=", "telemetry.health_minutes=0", "train.global_batch=16"}),
        {ranks, layout});
    EXPECT_EQ(ran.exit_code, 0) << ran.output;
    const std::regex line(
        "emulator: (\\d+) matmuls, (\\d+) beside messages, (\\d+) in two waves; messages held "
        "(\\d+)");
    Seen sum;
    int processes = 0;
    for (std::sregex_iterator found(ran.output.begin(), ran.output.end(), line), end; found != end;
         ++found, ++processes) {
      sum.matmuls += std::stol((*found)[1]);
      sum.beside += std::stol((*found)[2]);
      sum.second_waves += std::stol((*found)[3]);
      sum.held = std::max(sum.held, std::stoi((*found)[4]));
    }
    EXPECT_GE(processes, ranks) << ran.output;
    GTEST_LOG_(INFO) << layout << ": " << sum.matmuls << " matmuls, " << sum.beside
                     << " beside messages, " << sum.second_waves << " in two waves";
    return sum;
  }

 private:
  ScopedVariable processors_{"TRIREME_EMULATED_PROCESSORS", "132"};
  ScopedVariable counts_{"TRIREME_EMULATED_COUNTS", "1"};
};

TEST_F(Occupancy, PipelinesMatmulsNeedNoSecondWaveBesideLinksOfFewThreadBlocks) {
  const Seen choice = seen(2, "pipeline=2 comm.link_ctas=64");
  const Seen few = seen(2, "pipeline=2");

  EXPECT_GE(choice.held, 16);
  EXPECT_GT(choice.beside, 0);
  EXPECT_EQ(choice.second_waves, choice.beside);
  EXPECT_GT(few.beside, 0);
  EXPECT_EQ(few.second_waves, 0);
}

TEST_F(Occupancy, MatmulsOfZero3LeaveRoomForGathersAndReductions) {
  const Seen choice = seen(2, "data=2 zero=3 comm.data_ctas=64");
  const Seen bounded = seen(2, "data=2 zero=3");

  EXPECT_GT(choice.beside, 0);
  EXPECT_EQ(choice.second_waves, choice.beside);
  EXPECT_GT(bounded.beside, 0);
  EXPECT_EQ(bounded.second_waves, 0);
}

// A number of multiprocessors has algorithms of its own: the choice must not follow the clock.
TEST_F(Occupancy, WhatMatmulsLeaveIsTheSameInEveryRunAndGraph) {
  const Run run = gpt();
  const std::string layout = "data=2 zero=1 comm.max_ctas=8";
  const std::string eager = transcript(run, {2, layout});

  EXPECT_EQ(transcript(run, {2, layout, " again"}), eager);
  EXPECT_EQ(transcript(run, {2, layout + " device.graphs=layer"}), eager);
  EXPECT_EQ(transcript(run, {2, layout + " device.graphs=step"}), eager);
  EXPECT_EQ(transcript(run, {2, layout + " recompute=full"}), eager);
  EXPECT_NE(transcript(run, {2, "data=2 zero=1"}), eager) << "nothing was left";
}

TEST_F(Occupancy, ARunRecordsTheThreadBlocksOfItsGroups) {
  const ScopedVariable debug("TRIREME_LOG", "debug");
  const Layout layout{2, "pipeline=2 comm.tensor_ctas=12"};
  const CommandResult ran = train_layout(gpt(), layout);

  EXPECT_THAT(ran.output, HasSubstr("group pipeline.forward0 is for link: at most 2"));
  EXPECT_THAT(ran.output, HasSubstr("group pipeline is for control: at most 64"));
  const std::string file = read_file(directory() + "/" + name_of(layout) + "/environment.json");
  EXPECT_THAT(file, HasSubstr(R"("link": 2)"));
  EXPECT_THAT(file, HasSubstr(R"("data": 16)"));
  EXPECT_THAT(file, HasSubstr(R"("tensor": 12)"));
}

TEST_F(Occupancy, VariablesThatOverruleTheConfigAreNamed) {
  const ScopedVariable variable("NCCL_MAX_CTAS", "4");
  const CommandResult ran = train_layout(gpt(), {2, "data=2"});

  EXPECT_THAT(ran.output, HasSubstr("NCCL_MAX_CTAS=4 in the environment overrides"));
}

}  // namespace
}  // namespace trireme::test
