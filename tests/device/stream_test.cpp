// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"
#include "tests/support/allocation_count.h"
#include "tests/support/gate.h"

namespace trireme {
namespace {

using test::Gate;

class CpuStreams : public testing::Test {
 protected:
  std::unique_ptr<Device> device = Device::create(DeviceType::cpu);
  std::unique_ptr<Stream> compute = device->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm = device->make_stream(StreamKind::comm);
  std::unique_ptr<Stream> copy = device->make_stream(StreamKind::copy);
};

TEST_F(CpuStreams, ComputeRunsInlineOnTheCallingThread) {
  std::thread::id where;

  enqueue(*compute, [&] { where = std::this_thread::get_id(); });

  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST_F(CpuStreams, CommRunsInOrderOnAnotherThreadEvenPastTheRingCapacity) {
  std::vector<int> order;
  std::thread::id where;

  for (int i = 0; i < 2000; ++i)
    enqueue(*comm, [&order, i] { order.push_back(i); });
  enqueue(*comm, [&] { where = std::this_thread::get_id(); });
  comm->synchronize();

  ASSERT_EQ(order.size(), 2000U);
  for (int i = 0; i < 2000; ++i)
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(CpuStreams, EnqueueingDoesNotWaitForTheWorker) {
  Gate gate;
  bool ran = false;
  const auto done = device->make_event();

  enqueue(*comm, [&] { gate.pass(); });
  enqueue(*comm, [&] { ran = true; });
  comm->record(*done);

  EXPECT_FALSE(done->reached());
  gate.open();
  done->synchronize();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(done->reached());
}

TEST_F(CpuStreams, AnEventOrdersTwoWorkers) {
  Gate gate;
  const auto produced = device->make_event();
  int value = 0;
  int seen = 0;

  enqueue(*comm, [&] {
    gate.pass();
    value = 7;
  });
  comm->record(*produced);
  copy->wait(*produced);
  enqueue(*copy, [&] { seen = value; });
  gate.open();
  copy->synchronize();

  EXPECT_EQ(seen, 7);
}

TEST_F(CpuStreams, TheComputeStreamBlocksTheHostOnACommEvent) {
  const auto produced = device->make_event();
  int value = 0;

  enqueue(*comm, [&] { value = 7; });
  comm->record(*produced);
  compute->wait(*produced);

  EXPECT_EQ(value, 7);
}

TEST_F(CpuStreams, AWaitUsesTheLastRecordOfTheEvent) {
  Gate first;
  Gate second;
  const auto event = device->make_event();
  std::atomic<bool> passed = false;

  enqueue(*comm, [&] { first.pass(); });
  comm->record(*event);
  copy->wait(*event);
  enqueue(*copy, [&] { passed = true; });
  enqueue(*comm, [&] { second.pass(); });
  comm->record(*event);
  first.open();
  copy->synchronize();  // would never return if it waited for the second record

  EXPECT_TRUE(passed);
  EXPECT_FALSE(event->reached());
  second.open();
  event->synchronize();
}

TEST_F(CpuStreams, ReRecordingOnAnotherStreamMovesTheEvent) {
  Gate gate;
  const auto event = device->make_event();

  enqueue(*comm, [&] { gate.pass(); });
  comm->record(*event);
  compute->record(*event);

  EXPECT_TRUE(event->reached());
  gate.open();
  comm->synchronize();
}

TEST_F(CpuStreams, EventsMeasureTheTimeBetweenThem) {
  const auto start = device->make_event();
  const auto end = device->make_event();

  comm->record(*start);
  enqueue(*comm, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  comm->record(*end);
  end->synchronize();

  EXPECT_GE(end->milliseconds_since(*start), 2.0);
  EXPECT_THROW(static_cast<void>(end->milliseconds_since(*device->make_event())), Error);
}

TEST_F(CpuStreams, EventsOutliveTheirStream) {
  const auto event = device->make_event();

  comm->record(*event);
  comm.reset();

  event->synchronize();
  EXPECT_TRUE(event->reached());
}

TEST_F(CpuStreams, DestructionFinishesWhatIsQueued) {
  int runs = 0;

  for (int i = 0; i < 100; ++i)
    enqueue(*comm, [&] { ++runs; });
  comm.reset();

  EXPECT_EQ(runs, 100);
}

TEST_F(CpuStreams, ManyThreadsMayEnqueueOnOneStream) {
  int runs = 0;
  std::vector<std::thread> threads;

  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        enqueue(*comm, [&runs] { ++runs; });
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  comm->synchronize();

  EXPECT_EQ(runs, 2000);
}

TEST_F(CpuStreams, EnqueueingRecordingAndWaitingDoNotAllocate) {
  const auto event = device->make_event();
  std::int64_t sum = 0;
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) {
      enqueue(*comm, [&sum, i] { sum += i; });
      comm->record(*event);
      copy->wait(*event);
      compute->wait(*event);
    }
    comm->synchronize();
    copy->synchronize();
  };
  work();

  const std::size_t before = test::allocations;
  work();
  const std::size_t after = test::allocations;

  EXPECT_EQ(after - before, 0U);
}

}  // namespace
}  // namespace trireme
