// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/dry/dry_device.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

constexpr std::size_t terabyte = std::size_t{1} << 40;

class DryDevice : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Device> device_ = make_dry_device(GetParam());
};

TEST_P(DryDevice, CountsMoreMemoryThanAnyMachineHasByKindAndRole) {
  const MemoryScope scope(MemoryRole::optimizer);
  {
    const Buffer large(*device_, 8 * terabyte, MemoryKind::device);
    const Buffer small(*device_, 100, MemoryKind::host);

    EXPECT_NE(large.data(), nullptr);
    const MemoryUse use = device_->memory_use(MemoryKind::device);
    EXPECT_EQ(use.current_bytes, 8 * terabyte);
    EXPECT_EQ(use.by_role[static_cast<std::size_t>(MemoryRole::optimizer)], 8 * terabyte);
    EXPECT_EQ(device_->memory_use(MemoryKind::host).current_bytes, 100U);
    small.data()[99] = std::byte{1};  // small buffers are real
  }

  EXPECT_EQ(device_->memory_use(MemoryKind::device).current_bytes, 0U);
  EXPECT_EQ(device_->memory_use(MemoryKind::device).peak_bytes, 8 * terabyte);
}

TEST_P(DryDevice, NothingThatIsEnqueuedTouchesMemory) {
  const Buffer from(*device_, terabyte, MemoryKind::device);
  const Buffer to(*device_, terabyte, MemoryKind::device);
  const auto stream = device_->make_stream(StreamKind::copy);
  const auto event = device_->make_event();

  device_->fill_zero(*stream, from.data(), from.bytes());
  device_->copy(*stream, to.data(), from.data(), from.bytes());
  stream->record(*event);
  stream->synchronize();

  EXPECT_TRUE(event->reached());
  EXPECT_EQ(device_->type(), GetParam());
}

TEST_P(DryDevice, RefusesWorkOfABackEnd) {
  const auto stream = device_->make_stream(StreamKind::compute);

  EXPECT_THROW(enqueue(*stream, [] {}), Error);
  EXPECT_THROW((void)device_->capture(*stream, [] {}), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, DryDevice, testing::Values(DeviceType::cpu, DeviceType::cuda),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace trireme
