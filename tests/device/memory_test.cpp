// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/device/arena.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_device.h"

namespace trireme {
namespace {

using test::expect_error;

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);

class Memory : public testing::Test {
 protected:
  [[nodiscard]] std::size_t in_use(MemoryKind kind = MemoryKind::device) const {
    return device->memory_use(kind).current_bytes;
  }
  std::unique_ptr<Device> device = Device::create(test::device_under_test());
};

TEST_F(Memory, BuffersAreAlignedAndCountedByKind) {
  const Buffer odd(*device, 1001, MemoryKind::device);
  const Buffer large(*device, (std::size_t{5} << 20) + 3, MemoryKind::host);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(odd.data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % 64, 0U);
  EXPECT_EQ(in_use(MemoryKind::device), 1001U);
  EXPECT_EQ(in_use(MemoryKind::host), (std::size_t{5} << 20) + 3);
  const auto stream = device->make_stream(StreamKind::compute);
  device->fill_zero(*stream, odd.data(), odd.bytes());
  std::memset(large.data(), 0, large.bytes());
  stream->synchronize();
}

TEST_F(Memory, UseRemembersPeakAndAllocations) {
  { const Buffer first(*device, 300, MemoryKind::device); }
  { const Buffer second(*device, 200, MemoryKind::device); }

  const MemoryUse use = device->memory_use(MemoryKind::device);

  EXPECT_EQ(use.current_bytes, 0U);
  EXPECT_EQ(use.peak_bytes, 300U);
  EXPECT_EQ(use.allocations, 2U);
}

TEST_F(Memory, AMovedFromBufferIsEmpty) {
  Buffer first(*device, 100, MemoryKind::device);
  std::byte* const data = first.data();

  Buffer second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.bytes(), 0U);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(in_use(), 100U);

  second = Buffer(*device, 50, MemoryKind::device);
  EXPECT_EQ(in_use(), 50U);
  second = Buffer();
  EXPECT_EQ(in_use(), 0U);
}

TEST_F(Memory, ABufferOfZeroBytesAllocatesNothing) {
  const Buffer empty(*device, 0, MemoryKind::device);

  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(device->memory_use(MemoryKind::device).allocations, 0U);
}

TEST_F(Memory, AViewMustFit) {
  const Buffer buffer(*device, 100, MemoryKind::device);

  EXPECT_EQ(buffer.view(DType::f32, {5, 5}).data, buffer.data());
  expect_error(
      ExitCode::internal, [&] { static_cast<void>(buffer.view(DType::f32, {26})); },
      "needs 104 bytes, the buffer has 100");
}

TEST(Layout, RegionsAreAlignedAndDisjoint) {
  Layout layout;

  EXPECT_EQ(layout.reserve(1), 0U);
  EXPECT_EQ(layout.reserve(64), 64U);
  EXPECT_EQ(layout.reserve(65), 128U);
  EXPECT_EQ(layout.reserve(0), 256U);
  EXPECT_EQ(layout.peak_bytes(), 256U);
}

TEST(Layout, RewindingReusesSpaceAndKeepsThePeak) {
  Layout layout;
  layout.reserve(100);
  const std::size_t mark = layout.mark();
  layout.reserve(1000);

  layout.rewind(mark);

  EXPECT_EQ(layout.reserve(10), mark);
  EXPECT_EQ(layout.peak_bytes(), 128U + 1024U);
}

TEST_F(Memory, AnArenaHandsOutTensorsOfItsLayout) {
  Layout layout;
  const std::size_t first = layout.reserve(100);
  const std::size_t second = layout.reserve(40);
  const Arena arena(*device, layout);

  EXPECT_EQ(arena.bytes(), 192U);
  EXPECT_EQ(in_use(), 192U);
  EXPECT_EQ(arena.at(second, DType::f32, {10}).data - arena.at(first, DType::f32, {25}).data, 128);
  EXPECT_THROW(static_cast<void>(arena.at(second, DType::f32, {17})), Error);
}

}  // namespace
}  // namespace trireme
