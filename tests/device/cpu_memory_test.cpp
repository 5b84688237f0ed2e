// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "runtime/device/device.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::expect_error;

TEST(CpuMemory, ExhaustionReportsRequestedAndUsedBytes) {
  const auto device = Device::create(DeviceType::cpu);
  const Buffer held(*device, std::size_t{1} << 30, MemoryKind::host);
  const std::size_t huge = std::numeric_limits<std::size_t>::max() / 4;

  expect_error(
      ExitCode::internal, [&] { const Buffer buffer(*device, huge, MemoryKind::device); },
      std::to_string(huge) + " bytes", "of device memory", "holds other buffers 1.00 GiB");
  EXPECT_EQ(device->memory_use(MemoryKind::device).allocations, 0U);
  EXPECT_THROW(Buffer(*device, std::numeric_limits<std::size_t>::max(), MemoryKind::device), Error);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(CpuMemoryDeathTest, WritingPastABufferStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto overrun = [] {
    const auto device = Device::create(DeviceType::cpu);
    const Buffer buffer(*device, 100, MemoryKind::device);
    buffer.data()[100] = std::byte{0};
  };

  EXPECT_DEATH(overrun(), "wrote past the end of a device buffer of 100 bytes");
}
#endif

TEST(Devices, AnAbsentBackEndIsAConfigError) {
  expect_error(
      ExitCode::config, [] { static_cast<void>(Device::create(DeviceType::cuda)); },
      "part of the cuda backend, which this build lacks");
}

}  // namespace
}  // namespace trireme
