// SPDX-License-Identifier: Apache-2.0
// The contract of streams, events and graphs, on every back end.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/test_device.h"

namespace trireme {
namespace {

using test::expect_error;

class Streams : public testing::Test {
 protected:
  [[nodiscard]] Buffer ints(const std::vector<int>& values, MemoryKind kind) const {
    Buffer buffer(*device, values.size() * sizeof(int), kind);
    test::upload(*compute, buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  [[nodiscard]] std::vector<int> values(const Buffer& buffer) const {
    std::vector<int> all(buffer.bytes() / sizeof(int));
    test::download(*compute, all.data(), buffer.data(), buffer.bytes());
    return all;
  }
  void copy_all(Stream& stream, const Buffer& to, const Buffer& from) const {
    device->copy(stream, to.data(), from.data(), from.bytes());
  }

  std::unique_ptr<Device> device = Device::create(test::device_under_test());
  std::unique_ptr<Stream> compute = device->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm = device->make_stream(StreamKind::comm);
  std::unique_ptr<Stream> copy = device->make_stream(StreamKind::copy);
};

TEST_F(Streams, AnEventNeverRecordedIsReached) {
  const auto event = device->make_event();

  EXPECT_TRUE(event->reached());
  event->synchronize();
  comm->wait(*event);
  compute->wait(*event);
  comm->synchronize();
}

TEST_F(Streams, CopyAndFillWorkOnEveryStream) {
  for (Stream* const stream : {compute.get(), comm.get(), copy.get()}) {
    const Buffer from = ints({1, 2, 3}, MemoryKind::device);
    const Buffer host = ints({0, 0, 0}, MemoryKind::host);
    const Buffer to = ints({0, 0, 0}, MemoryKind::device);

    copy_all(*stream, host, from);
    copy_all(*stream, to, host);
    device->fill_zero(*stream, from.data(), from.bytes());
    stream->synchronize();

    EXPECT_EQ(values(to), (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(values(from), (std::vector<int>{0, 0, 0}));
  }
}

TEST_F(Streams, CopiesAndFillsOfNothingAreAllowed) {
  const Buffer some = ints({1}, MemoryKind::device);

  device->copy(*compute, some.data(), nullptr, 0);
  device->copy(*compute, some.data(), some.data(), some.bytes());
  device->fill_zero(*compute, nullptr, 0);

  EXPECT_EQ(values(some), std::vector<int>{1});
}

TEST_F(Streams, AnEventOrdersTheStreamsOfARing) {
  const Buffer a = ints({7}, MemoryKind::device), b = ints({0}, MemoryKind::device);
  const Buffer c = ints({0}, MemoryKind::device), d = ints({0}, MemoryKind::device);
  const auto first = device->make_event(), second = device->make_event();

  copy_all(*compute, b, a);
  compute->record(*first);
  comm->wait(*first);
  copy_all(*comm, c, b);
  comm->record(*second);
  copy->wait(*second);
  copy_all(*copy, d, c);
  copy->synchronize();

  EXPECT_TRUE(first->reached());
  EXPECT_TRUE(second->reached());
  EXPECT_EQ(values(d), std::vector<int>{7});
}

TEST_F(Streams, AReachedEventIncludesTheWorkBeforeIt) {
  const Buffer from = ints({3}, MemoryKind::device), to = ints({0}, MemoryKind::host);
  const auto done = device->make_event();

  copy_all(*copy, to, from);
  copy->record(*done);
  while (!done->reached())
    std::this_thread::yield();

  EXPECT_EQ(*reinterpret_cast<const int*>(to.data()), 3);
}

TEST_F(Streams, TimedEventsMeasureTheTimeBetweenThem) {
  const auto start = device->make_event(EventKind::timed);
  const auto end = device->make_event(EventKind::timed);
  const Buffer large(*device, std::size_t{1} << 20, MemoryKind::device);

  comm->record(*start);
  start->synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  device->fill_zero(*comm, large.data(), large.bytes());
  comm->record(*end);
  end->synchronize();

  EXPECT_GE(end->milliseconds_since(*start), 2.0);
  EXPECT_LT(end->milliseconds_since(*start), 10'000.0);
  const auto never = device->make_event(EventKind::timed);
  EXPECT_THROW(static_cast<void>(end->milliseconds_since(*never)), Error);
}

TEST_F(Streams, EventsOutliveTheirStream) {
  const auto event = device->make_event();

  comm->record(*event);
  comm.reset();

  event->synchronize();
  EXPECT_TRUE(event->reached());
}

// Only a GPU records graphs.
class Graphs : public Streams {
 protected:
  void SetUp() override {
    if (device->type() == DeviceType::cpu) GTEST_SKIP() << "the CPU back end records no graphs";
  }
};

TEST_F(Graphs, ReplayReadsCurrentMemory) {
  const Buffer in = ints({1}, MemoryKind::device), out = ints({0}, MemoryKind::device);
  const auto graph = device->capture(*compute, [&] { copy_all(*compute, out, in); });
  EXPECT_EQ(values(out), std::vector<int>{0}) << "recorded, not run";

  for (const int value : {5, 6}) {
    test::upload(*compute, in.data(), &value, sizeof(value));
    graph->launch(*compute);
    EXPECT_EQ(values(out), std::vector<int>{value});
  }
}

TEST_F(Graphs, HoldTheWorkOfStreamsThatForkAndJoin) {
  const Buffer in = ints({4}, MemoryKind::device), middle = ints({0}, MemoryKind::device);
  const Buffer out = ints({0}, MemoryKind::device);
  const auto forked = device->make_event(), joined = device->make_event();

  const auto graph = device->capture(*compute, [&] {
    copy_all(*compute, middle, in);
    compute->record(*forked);
    comm->wait(*forked);
    copy_all(*comm, out, middle);
    comm->record(*joined);
    compute->wait(*joined);
  });
  graph->launch(*compute);

  EXPECT_EQ(values(out), std::vector<int>{4});
}

TEST_F(Graphs, RefuseWorkThatWaitsOrDoesNotComeBack) {
  const Buffer in = ints({4}, MemoryKind::device), out = ints({0}, MemoryKind::device);
  const auto forked = device->make_event();

  expect_error(
      ExitCode::config,
      [&] { static_cast<void>(device->capture(*compute, [&] { compute->synchronize(); })); },
      "device.graphs", "cannot be recorded", "cudaErrorStreamCapture");
  expect_error(
      ExitCode::config,
      [&] {
        static_cast<void>(device->capture(*compute, [&] {
          compute->record(*forked);
          comm->wait(*forked);
          copy_all(*comm, out, in);
        }));
      },
      "cannot be recorded", "cudaErrorStreamCaptureUnjoined");
  copy_all(*compute, out, in);  // the stream is usable again
  EXPECT_EQ(values(out), std::vector<int>{4});
}

TEST(CpuGraphs, AreRefusedWithTheReason) {
  const auto device = Device::create(DeviceType::cpu);
  const auto stream = device->make_stream(StreamKind::compute);

  expect_error(
      ExitCode::config, [&] { static_cast<void>(device->capture(*stream, [] {})); }, "graph");
}

}  // namespace
}  // namespace trireme
