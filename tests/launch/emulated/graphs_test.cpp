// SPDX-License-Identifier: Apache-2.0
// CUDA graphs in whole runs on emulated GPUs: bits equal to steps without graphs, the host's calls
// per step, and the behaviour if nothing can be recorded.
#include <regex>

#include "tests/launch/fixture/emulated_fixture.h"

namespace trireme::test {
namespace {

class EmulatedGraphs : public EmulatedTest {
 protected:
  struct Counts {
    long kernels = 0, copies = 0, graphs = 0, waits = 0, allocations = 0, ranges = 0;
  };

  void expect_same_with_graphs(const Run& run, int ranks, const std::string& layout) {
    const std::string eager = transcript(run, {ranks, layout});
    for (const char* const mode : {"layer", "step"}) {
      EXPECT_EQ(transcript(run, {ranks, layout + " device.graphs=" + mode}), eager)
          << layout << ", " << mode;
    }
  }

  // The host's calls per warm step of a run.
  Counts counts_per_step(const std::string& graphs) {
    constexpr int fewer = 4, more = 8;
    const ScopedVariable print("TRIREME_EMULATED_COUNTS", "1");
    const auto counted = [&](int steps) {
      // Digests cover other weights in each step, so they follow the graph.
      const std::string text = "train.steps=" + std::to_string(steps) + " device.graphs=" + graphs +
                               " telemetry.weight_digests=0";
      return read_counts(train_layout(gpt({"data.prefetch=1"}), {1, text}).output);
    };
    const Counts first = counted(fewer), last = counted(more);
    const auto each = [](long a, long b) { return (b - a) / (more - fewer); };
    return {each(first.kernels, last.kernels),         each(first.copies, last.copies),
            each(first.graphs, last.graphs),           each(first.waits, last.waits),
            each(first.allocations, last.allocations), each(first.ranges, last.ranges)};
  }

 private:
  static Counts read_counts(const std::string& output) {
    const std::regex line(
        "emulator: (\\d+) kernels, (\\d+) copies, (\\d+) graph launches, (\\d+) waits, "
        "(\\d+) allocations, (\\d+) ranges");
    std::smatch found;
    if (!std::regex_search(output, found, line)) {
      ADD_FAILURE() << "no counts in\n" << output;
      return {};
    }
    return {std::stol(found[1]), std::stol(found[2]), std::stol(found[3]),
            std::stol(found[4]), std::stol(found[5]), std::stol(found[6])};
  }
};

TEST_F(EmulatedGraphs, ReplayedStepsAndLayersChangeNoBit) {
  expect_same_with_graphs(gpt(), 1, "");
  expect_same_with_graphs(gpt(), 2, "data=2 zero=3");
  expect_same_with_graphs(gpt(), 2, "tensor=2 sequence=true");
  expect_same_with_graphs(resnet(), 2, "data=2");
}

// The host waits once a step: for the step before, to report it.
TEST_F(EmulatedGraphs, AStepWaitsOnceAndAllocatesNothing) {
  const Counts counts = counts_per_step("off");

  EXPECT_EQ(counts.waits, 1);
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.graphs, 0);
  EXPECT_GT(counts.kernels, 100);
}

TEST_F(EmulatedGraphs, AReplayedStepIsOneLaunch) {
  const Counts counts = counts_per_step("step");

  EXPECT_EQ(counts.graphs, 1);
  EXPECT_EQ(counts.kernels, 0);
  EXPECT_EQ(counts.waits, 1);
  EXPECT_EQ(counts.allocations, 0);
}

// Ranges of 4 micro-batches forward and backward through an embedding, 2 blocks and a head, of the
// reduction and of the update.
TEST_F(EmulatedGraphs, ProfilersSeePhasesAndLayersByName) {
  EXPECT_EQ(counts_per_step("off").ranges, 4 * 2 * (1 + 4) + 2);

  const ScopedVariable print("TRIREME_EMULATED_COUNTS", "1");
  const CommandResult result = train_layout(gpt(), {});
  for (const char* const name :
       {"\"forward\"", "\"backward\"", "\"reduce\"", "\"optimizer\"", "\"blocks.1\""})
    EXPECT_NE(result.output.find(name), std::string::npos) << name << "\n" << result.output;
}

// Equal bits alone do not prove that steps were recorded.
TEST_F(EmulatedGraphs, TheLogSaysOnceThatGraphsAreReplayed) {
  for (const std::string mode : {"layer", "step"}) {
    const CommandResult result = train_layout(gpt(), {1, "device.graphs=" + mode});
    const std::string said = mode + "s are replayed as CUDA graphs";
    const auto at = result.output.find(said);
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find(said, at + 1), std::string::npos) << result.output;
  }
}

TEST_F(EmulatedGraphs, APipelineStepsWithoutThemAndSaysWhyOnce) {
  const Layout eager{2, "pipeline=2"}, graphs{2, "pipeline=2 device.graphs=step"};
  const CommandResult result = train_layout(gpt(), {2, graphs.text, "said"});

  const std::string reason = "steps run without graphs";
  const auto at = result.output.find(reason);
  ASSERT_NE(at, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find(reason, at + 1), std::string::npos) << result.output;
  EXPECT_EQ(transcript(gpt(), graphs), transcript(gpt(), eager));
}

// Under all contracts: a traced step runs without its graph, between steps that are recorded and
// replayed, and its events and clocks are read beside work under way.
TEST_F(EmulatedGraphs, TracedStepsChangeNoBitInAnyGraphMode) {
  const auto expect_same_traced = [&](int ranks, const std::string& layout) {
    Run run = gpt({"train.steps=6"});
    run.steps = 6;
    const Layout with{ranks, layout, " traced"};
    const std::string plain = transcript(run, {ranks, layout});
    run.set.emplace_back("telemetry.trace=4-5");
    EXPECT_EQ(transcript(run, with), plain) << layout;
    const CommandResult summary = trireme("trace summary " + directory() + "/" + name_of(with));
    EXPECT_EQ(summary.exit_code, 0) << summary.output;
    EXPECT_NE(summary.output.find("steps 4 to 5 on " + std::to_string(ranks) + " cuda rank(s)"),
              std::string::npos)
        << summary.output;
  };
  expect_same_traced(1, "device.graphs=step");
  expect_same_traced(2, "data=2 zero=1 device.graphs=layer");
  expect_same_traced(2, "pipeline=2");
}

// NCCL could not go on with a group after that.
TEST_F(EmulatedGraphs, NoGroupRecordsACallThatNcclRefuses) {
  for (const std::string layout : {"data=2 device.graphs=step", "tensor=2 device.graphs=layer"}) {
    const std::string eager = transcript(gpt(), {2, layout.substr(0, layout.find(' '))});
    const ScopedVariable fault("TRIREME_EMULATED_FAULT", "no_nccl_capture");
    const CommandResult result = train_layout(gpt(), {2, layout, "said"});
    EXPECT_NE(
        result.output.find("steps run without graphs, because collectives cannot be recorded"),
        std::string::npos)
        << result.output;
    EXPECT_EQ(transcript(gpt(), {2, layout}), eager) << layout;
  }
}

TEST_F(EmulatedGraphs, UnrecordableStepsRunWithoutGraphs) {
  const std::string layout = "data=2 zero=3";
  const std::string eager = transcript(gpt(), {2, layout});
  const ScopedVariable fault("TRIREME_EMULATED_FAULT", "no_capture");
  for (const std::string mode : {"layer", "step"}) {
    const Layout graphs{2, layout + " device.graphs=" + mode};
    EXPECT_EQ(transcript(gpt(), graphs), eager) << mode;
  }
  const CommandResult result = train_layout(gpt(), {1, "device.graphs=step"});
  const std::string reason = "steps run without graphs from here on: device.graphs: ";
  const auto at = result.output.find(reason);
  ASSERT_NE(at, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find(reason, at + 1), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("are replayed as CUDA graphs"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace trireme::test
