// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "runtime/device/cpu/cpu_stream.h"
#include "tests/support/gate.h"

namespace trireme {
namespace {

using test::Gate;
using testing::HasSubstr;

class StreamFailure : public testing::Test {
 protected:
  void break_comm() {
    enqueue(*comm, [] { fail(ExitCode::data, "the first failure"); });
  }
  template <typename Action>
  static void expect_first_failure(Action action) {
    try {
      action();
      FAIL() << "nothing was raised";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_THAT(error.what(), HasSubstr("the first failure"));
    }
  }

  std::unique_ptr<Device> device = Device::create(DeviceType::cpu);
  std::unique_ptr<Stream> compute = device->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm = device->make_stream(StreamKind::comm);
  std::unique_ptr<Stream> copy = device->make_stream(StreamKind::copy);
};

TEST_F(StreamFailure, SynchronizeRaisesTheFirstErrorWithItsExitCodeAgainAndAgain) {
  break_comm();
  enqueue(*comm, [] { throw std::runtime_error("a later failure"); });

  expect_first_failure([&] { comm->synchronize(); });
  expect_first_failure([&] { comm->synchronize(); });
}

TEST_F(StreamFailure, LaterTasksAreSkipped) {
  bool ran = false;

  break_comm();
  enqueue(*comm, [&] { ran = true; });
  EXPECT_THROW(comm->synchronize(), Error);

  EXPECT_FALSE(ran);
}

TEST_F(StreamFailure, EventsBeforeTheFailureAreCleanAndThoseAfterItRaise) {
  const auto before = device->make_event();
  const auto after = device->make_event();

  comm->record(*before);
  break_comm();
  comm->record(*after);
  EXPECT_THROW(comm->synchronize(), Error);

  before->synchronize();
  EXPECT_TRUE(after->reached());
  expect_first_failure([&] { after->synchronize(); });
}

TEST_F(StreamFailure, TheComputeStreamRaisesAtTheWait) {
  const auto event = device->make_event();

  break_comm();
  comm->record(*event);

  expect_first_failure([&] { compute->wait(*event); });
}

TEST_F(StreamFailure, AWorkerThatWaitsForAFailedStreamFailsToo) {
  const auto event = device->make_event();
  bool ran = false;

  break_comm();
  comm->record(*event);
  copy->wait(*event);
  enqueue(*copy, [&] { ran = true; });

  expect_first_failure([&] { copy->synchronize(); });
  EXPECT_FALSE(ran);
}

TEST_F(StreamFailure, AStandardExceptionBecomesAnInternalError) {
  enqueue(*comm, [] { throw std::runtime_error("not ours"); });

  try {
    comm->synchronize();
    FAIL() << "nothing was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_STREQ(error.what(), "not ours");
  }
}

TEST_F(StreamFailure, AnInlineTaskRaisesAtOnceAndLeavesTheStreamUsable) {
  bool ran = false;

  expect_first_failure(
      [&] { enqueue(*compute, [] { fail(ExitCode::data, "the first failure"); }); });
  enqueue(*compute, [&] { ran = true; });

  EXPECT_TRUE(ran);
  compute->synchronize();
}

TEST_F(StreamFailure, ATaskCannotEnqueueOnItsOwnStream) {
  enqueue(*comm, [&] { enqueue(*comm, [] {}); });

  EXPECT_THROW(comm->synchronize(), Error);
}

TEST_F(StreamFailure, UnwindingPastAStreamSkipsItsQueueAndStopsATaskThatPolls) {
  bool ran = false;

  EXPECT_THROW(
      {
        const auto stream = device->make_stream(StreamKind::comm);
        enqueue(*stream, [] {
          while (!stream_cancelled())
            std::this_thread::yield();
        });
        enqueue(*stream, [&] { ran = true; });
        throw std::runtime_error("unwinding");
      },
      std::runtime_error);

  EXPECT_FALSE(ran);
}

TEST_F(StreamFailure, UnwindingPastABufferAwaitsTheTasksThatUseIt) {
  bool ran = false;

  EXPECT_THROW(
      {
        const Buffer buffer(*device, 1 << 20, MemoryKind::host);
        enqueue(*comm, [&] {
          while (!stream_cancelled())
            buffer.data()[0] = std::byte{1};
        });
        enqueue(*comm, [&] { ran = true; });
        throw std::runtime_error("unwinding");
      },
      std::runtime_error);

  EXPECT_FALSE(ran);
  EXPECT_THROW(comm->synchronize(), Error);
}

TEST_F(StreamFailure, UnwindingPastABufferLeavesIdleStreamsUsable) {
  bool ran = false;

  EXPECT_THROW(
      {
        const Buffer buffer(*device, 64, MemoryKind::host);
        throw std::runtime_error("unwinding");
      },
      std::runtime_error);
  enqueue(*comm, [&] { ran = true; });
  comm->synchronize();

  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace trireme
