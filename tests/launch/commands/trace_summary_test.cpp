// SPDX-License-Identifier: Apache-2.0
// Causes of gaps, in traces with known causes.
#include "launch/observe/trace/trace_summary.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr std::int64_t ms = 1'000'000;

class Summaries : public testing::Test {
 protected:
  Summaries() {
    trace.ranks = 2;
    trace.data = 1;
    trace.pipeline = 2;
    trace.processes = {"rank 0 on a", "rank 1 on b"};
    for (const int rank : {0, 1})
      add({.kind = SpanKind::step,
           .rank = rank,
           .thread = 1,
           .begin = 0,
           .end = 100 * ms,
           .step = 5},
          "step 5");
  }
  FileSpan& add(FileSpan span, const std::string& name, const std::string& group = {}) {
    span.name = index_of(name);
    if (!group.empty()) span.group = index_of(group);
    return trace.spans.emplace_back(span);
  }
  std::int32_t index_of(const std::string& name) {
    const auto found = std::ranges::find(trace.names, name);
    if (found != trace.names.end()) return static_cast<std::int32_t>(found - trace.names.begin());
    trace.names.push_back(name);
    return static_cast<std::int32_t>(trace.names.size()) - 1;
  }
  void compute(int rank, std::int64_t begin, std::int64_t end, const std::string& name) {
    add({.kind = SpanKind::layer,
         .rank = rank,
         .thread = 1,
         .begin = begin * ms,
         .end = end * ms,
         .step = 5,
         .chunk = 0,
         .micro_batch = 2},
        name);
  }
  void wait(int rank, std::int64_t begin, std::int64_t end, const std::string& name) {
    add({.kind = SpanKind::wait,
         .rank = rank,
         .thread = 1,
         .begin = begin * ms,
         .end = end * ms,
         .step = 5},
        name);
  }

  TraceFile trace;
};

TEST_F(Summaries, NameTheRankThatACollectiveWaitedForAndItsWork) {
  compute(0, 0, 40, "block.1");
  wait(0, 40, 80, "wait for communication");
  compute(0, 80, 100, "adamw");
  compute(1, 0, 70, "block.slow");
  wait(1, 70, 80, "wait for communication");
  compute(1, 80, 100, "adamw");
  for (const int rank : {0, 1})
    add({.kind = SpanKind::collective,
         .rank = rank,
         .thread = 2,
         .begin = (rank == 0 ? 40 : 70) * ms,
         .end = 80 * ms,
         .step = 5,
         .group_size = 2,
         .number = 3,
         .bytes = 1000},
        "all_reduce bucket 1", "data of rank 0");

  const TraceSummary summary = summarize(trace, 10);

  ASSERT_EQ(summary.gaps.size(), 2U);
  EXPECT_EQ(summary.gaps[0].rank, 0);
  EXPECT_EQ(summary.gaps[0].end - summary.gaps[0].begin, 40 * ms);
  EXPECT_EQ(summary.gaps[0].what,
            "for all_reduce bucket 1 (group data of rank 0): rank 1 came last, 30.00 ms after "
            "this began to wait; rank 1 was at block.slow, chunk 0, micro-batch 2");
  EXPECT_THAT(summary.gaps[1].what, HasSubstr(": all ranks were there, 1.0 kB took 10.00 ms"));
  ASSERT_EQ(summary.ranks.size(), 2U);
  EXPECT_NEAR(summary.ranks[0].busy, 0.6, 1e-9);
  EXPECT_NEAR(summary.ranks[0].communication, 0.4, 1e-9);
  EXPECT_NEAR(summary.ranks[0].messages, 0.4, 1e-9);
  EXPECT_NEAR(summary.ranks[0].hidden, 0, 1e-9);
  EXPECT_THAT(text_of(trace, summary), HasSubstr("40.00 ms  rank 0, step 5 at 40.00 ms: for all"));
}

TEST_F(Summaries, AGapBetweenStepsIsPlacedBeforeTheSecond) {
  compute(0, 0, 100, "block.0");
  compute(1, 0, 100, "block.1");
  for (const SpanKind kind : {SpanKind::step, SpanKind::layer})
    add({.kind = kind, .rank = 0, .thread = 1, .begin = 160 * ms, .end = 200 * ms, .step = 6},
        "of step 6");

  EXPECT_THAT(text_of(trace, summarize(trace, 1)),
              HasSubstr("60.00 ms  rank 0, from 60.00 ms before step 6: for the host"));
}

TEST_F(Summaries, NameStageDataAndHost) {
  compute(0, 0, 60, "block.0");
  add({.kind = SpanKind::send,
       .rank = 0,
       .thread = 3,
       .begin = 60 * ms,
       .end = 62 * ms,
       .step = 5,
       .peer = 1,
       .number = 0},
      "send activation of micro-batch 0, chunk 0", "pipeline.forward0 of rank 0");
  wait(0, 70, 100, "wait for data");
  wait(1, 0, 62, "wait for the activation");
  add({.kind = SpanKind::receive,
       .rank = 1,
       .thread = 3,
       .begin = 0,
       .end = 62 * ms,
       .step = 5,
       .peer = 0,
       .number = 0},
      "recv activation of micro-batch 0, chunk 0", "pipeline.forward0 of rank 0");
  compute(1, 62, 80, "block.1");
  add({.kind = SpanKind::activity, .rank = 1, .thread = 9, .begin = 75 * ms, .end = 120 * ms},
      "report");

  const TraceSummary summary = summarize(trace, 10);

  ASSERT_EQ(summary.gaps.size(), 3U);
  EXPECT_EQ(summary.gaps[0].cause, GapCause::stage);
  EXPECT_EQ(summary.gaps[0].what,
            "for recv activation of micro-batch 0, chunk 0 from rank 0 (stage 0), which sent it "
            "60.00 ms after this began to wait; rank 0 was at block.0, chunk 0, micro-batch 2");
  EXPECT_EQ(summary.gaps[1].cause, GapCause::data);  // and no cause for the 10 ms before it
  EXPECT_EQ(summary.gaps[1].end - summary.gaps[1].begin, 40 * ms);
  EXPECT_EQ(summary.gaps[2].what, "for the host, which had enqueued nothing (it was at: report)");
  for (const RankShares& rank : summary.ranks)
    EXPECT_NEAR(rank.busy + rank.communication + rank.stages + rank.data + rank.host, 1, 1e-9);
  EXPECT_EQ(summarize(trace, 1).gaps.size(), 1U);
}

TEST_F(Summaries, OfATraceWithoutStepsIsEmpty) {
  trace.spans.clear();
  const TraceSummary summary = summarize(trace, 10);

  EXPECT_TRUE(summary.ranks.empty() && summary.gaps.empty());
  EXPECT_THAT(text_of(trace, summary), HasSubstr("the 0 largest gaps"));
}

}  // namespace
}  // namespace trireme
