// SPDX-License-Identifier: Apache-2.0
// The trace log of a step, on every back end.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/device/range.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/device/trace/trace_log.h"
#include "tests/support/test_device.h"

namespace trireme {
namespace {

class TracedStreams : public testing::Test {
 protected:
  // Work of some duration on every device.
  void work(Stream& stream) const {
    for (int i = 0; i < 4; ++i)
      device->fill_zero(stream, memory.data(), memory.bytes());
  }
  static const TracedSpan& named(const Traced& traced, std::string_view name) {
    const auto found = std::ranges::find(traced.spans, name, &TracedSpan::name);
    EXPECT_NE(found, traced.spans.end()) << name;
    return *found;
  }

  std::unique_ptr<Device> device = Device::create(test::device_under_test());
  std::unique_ptr<Stream> compute = device->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm = device->make_stream(StreamKind::comm);
  Buffer memory{*device, std::size_t{1} << 20U, MemoryKind::device};
  TraceLog log{*device, *compute};
  const int group = 0;  // its address identifies a group

  [[nodiscard]] TraceCall call(std::string_view verb) const {
    return {.group = &group,
            .group_name = "data",
            .group_rank = 1,
            .group_size = 2,
            .verb = verb,
            .bytes = 5};
  }
};

TEST_F(TracedStreams, RangesNestWithinTheStepOnTheHostsClock) {
  const std::int64_t before = TraceClock::now();
  log.begin_step(7, true);
  log.set_activity("forward", 0, 3);
  {
    const Range pass("pass");
    work(*compute);
    const Range layer("layer 1");
    work(*compute);
  }
  log.end_step();
  const Traced traced = log.take();
  const std::int64_t after = TraceClock::now();

  ASSERT_EQ(traced.spans.size(), 3U);
  const TracedSpan &step = traced.spans[0], &pass = traced.spans[1], &layer = traced.spans[2];
  EXPECT_EQ(step.kind, TraceKind::step);
  EXPECT_EQ(pass.kind, TraceKind::pass);
  EXPECT_EQ(pass.name, "forward");  // as the schedule calls it
  EXPECT_EQ(layer.kind, TraceKind::layer);
  EXPECT_EQ(layer.name, "layer 1");
  EXPECT_EQ(layer.step, 7);
  EXPECT_EQ(layer.micro_batch, 3);
  const std::int64_t doubt = traced.error + 2'000;  // times of GPUs are rounded to 0.5 us
  EXPECT_LE(before, step.begin + doubt);
  EXPECT_LE(step.begin, pass.begin);
  EXPECT_LT(pass.begin, layer.begin);
  EXPECT_LT(layer.begin, layer.end);
  EXPECT_LE(layer.end, pass.end);
  EXPECT_LE(pass.end, step.end);
  EXPECT_LE(step.end, after + doubt);
}

TEST_F(TracedStreams, WorkOfSeveralStreamsIsOnOneClock) {
  log.begin_step(1, true);
  const auto done = device->make_event();
  EXPECT_TRUE(log.begin_call(call("all_reduce"), *comm, "bucket 3", false));
  EXPECT_FALSE(log.begin_call(call("all_gather"), *comm, "of a decorator", false));
  work(*comm);
  log.end_call(*comm, false);
  comm->record(*done);
  {
    const TraceSpan wait(TraceKind::wait, *compute, "wait");
    compute->wait(*done);
  }
  log.end_step();
  const Traced traced = log.take();

  ASSERT_EQ(traced.spans.size(), 3U);
  const TracedSpan &message = named(traced, "bucket 3"), &wait = named(traced, "wait");
  EXPECT_EQ(message.kind, TraceKind::message);
  EXPECT_EQ(message.verb, "all_reduce");
  EXPECT_EQ(message.bytes, 5);
  EXPECT_EQ(traced.groups.at(static_cast<std::size_t>(message.group)).name, "data");
  EXPECT_EQ(traced.streams.at(static_cast<std::size_t>(message.stream)).kind, StreamKind::comm);
  EXPECT_EQ(wait.stream, 0);
  EXPECT_GT(message.end, message.begin);
  EXPECT_GE(wait.end + 2'000, message.end);
}

TEST_F(TracedStreams, CallsOfAGroupEndTogether) {
  log.begin_step(1, true);
  for (const std::string_view verb : {"send", "recv"}) {
    EXPECT_TRUE(log.begin_call(call(verb), *comm, verb, true));
    log.end_call(*comm, true);
  }
  work(*comm);
  log.end_group(*comm);
  log.end_step();
  const Traced traced = log.take();

  EXPECT_LE(named(traced, "send").begin, named(traced, "recv").begin);
  EXPECT_GT(named(traced, "send").end, named(traced, "recv").begin);
}

TEST_F(TracedStreams, OnlyRequestedWorkIsNoted) {
  log.begin_step(1, false);  // counts
  { const Range range("pass"); }
  log.end_step();
  EXPECT_EQ(log.counted(), 2U);
  {
    const Range range("outside of a step");
    EXPECT_EQ(TraceLog::current(), nullptr);
  }
  EXPECT_TRUE(log.take().spans.empty());

  log.begin_step(2, true);
  const auto host = Device::create(DeviceType::cpu);
  const auto elsewhere = host->make_stream(StreamKind::compute);
  { const TraceSpan span(TraceKind::wait, *elsewhere, "of another device"); }
  log.end_step();
  EXPECT_EQ(log.take().spans.size(), 1U);
}

TEST(HostTraces, HaveWorkOfOtherThreads) {
  { const HostTraceSpan span("before", 0, 0); }
  HostTrace::start();
  HostTrace::set_activity("reading", 1, 2);
  std::thread([] { const HostTraceSpan span("of a thread", 5, 6); }).join();
  HostTrace::count("queue", 3);
  HostTrace::set_activity("writing", -1, -1);
  HostTrace::stop();
  { const HostTraceSpan span("after", 0, 0); }
  const HostTrace::Entries all = HostTrace::entries();

  ASSERT_EQ(all.entries.size(), 4U);
  EXPECT_EQ(all.entries[0].name, "of a thread");
  EXPECT_EQ(all.entries[0].numbers[1], 6);
  EXPECT_EQ(all.entries[1].kind, HostTraceKind::counter);
  EXPECT_EQ(all.entries[1].numbers[0], 3);
  EXPECT_EQ(all.entries[2].name, "reading");
  EXPECT_NE(all.entries[2].thread, all.entries[0].thread);
  EXPECT_GE(all.entries[2].end, all.entries[0].end);
  EXPECT_EQ(all.entries[3].name, "writing");
  EXPECT_EQ(all.lost, 0U);

  HostTrace::start();
  for (std::size_t i = 0; i < HostTrace::capacity + 10; ++i)
    HostTrace::count("queue", 1);
  HostTrace::stop();
  EXPECT_EQ(HostTrace::entries().lost, 10U);
}

}  // namespace
}  // namespace trireme
