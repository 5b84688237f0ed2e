// SPDX-License-Identifier: Apache-2.0
// Messages of the CUDA back end where it cannot work, on emulated machines. The machine is read
// once per process, so each is described in a child.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/device/cuda/cuda_device.h"

namespace trireme {
namespace {

struct Machine {
  const char* variable;
  const char* value;
};

class CudaDeviceDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Prints the error that `action` raises and exits with its code, or with 0.
template <typename Action>
void run_on(const Machine& machine, const Action& action) {
  setenv(machine.variable, machine.value, 1);
  try {
    action();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(static_cast<int>(error.code()));
  }
  std::exit(0);
}

void create(const DevicePlace& place = {}) {
  const auto device = Device::create(DeviceType::cuda, place);
}

const testing::ExitedWithCode refused(static_cast<int>(ExitCode::config));
const testing::ExitedWithCode broken(static_cast<int>(ExitCode::internal));
const testing::ExitedWithCode fine(0);

TEST_F(CudaDeviceDeathTest, NamesAMissingOrOldDriver) {
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_FAULT", "no_driver"}, [] { create(); }), refused,
              "no NVIDIA driver is loaded on this host.*CUDA 13.0.*device.type: cpu");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_FAULT", "old_driver"}, [] { create(); }), refused,
              "driver supports CUDA 12.2, but this build needs 13.0; update the driver");
}

TEST_F(CudaDeviceDeathTest, NamesAMissingOrOldGpu) {
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_GPUS", "0"}, [] { create(); }), refused,
              "shows no GPU to this process .CUDA_VISIBLE_DEVICES=");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_FAULT", "old_gpu"}, [] { create(); }), refused,
              "GPU 0 has compute capability 7.0; this build needs 8.0 or newer");
}

TEST_F(CudaDeviceDeathTest, MoreRanksThanGpusMustAskToShare) {
  const auto on_last_of_three = [](bool share) {
    return [share] { create({.local_rank = 2, .local_size = 3, .share = share}); };
  };

  EXPECT_EXIT(
      run_on({"TRIREME_EMULATED_GPUS", "2"}, on_last_of_three(false)), refused,
      "3 ranks on this host and 2 GPUs; start at most 2 ranks per host, or set device.share");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_GPUS", "2"}, on_last_of_three(true)), fine, "");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_GPUS", "3"}, on_last_of_three(false)), fine, "");
}

TEST_F(CudaDeviceDeathTest, ExhaustionReportsRequestedAndFreeMemory) {
  const auto exhaust = [] {
    const auto device = Device::create(DeviceType::cuda);
    const MemoryScope first(MemoryRole::parameters);
    const Buffer held(*device, std::size_t{32} << 20, MemoryKind::device);
    const MemoryScope second(MemoryRole::activations);
    const Buffer more(*device, std::size_t{48} << 20, MemoryKind::device);
  };

  EXPECT_EXIT(run_on({"TRIREME_EMULATED_MEMORY", "64"}, exhaust), broken,
              "out of memory: 50331648 bytes .48.00 MiB. of device memory requested by activations "
              "on GPU 0, which has 32.00 MiB of 64.00 MiB free; this rank holds parameters 32.00 "
              "MiB");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_MEMORY", "128"}, exhaust), fine, "");
}

TEST_F(CudaDeviceDeathTest, ScratchMustHaveGrownBeforeAGraphIsRecorded) {
  const auto record = [](std::size_t before) {
    return [before] {
      const auto device = Device::create(DeviceType::cuda);
      const auto stream = device->make_stream(StreamKind::compute);
      static_cast<void>(CudaStream::of(*stream).scratch(before));
      const auto graph = device->capture(
          *stream, [&] { static_cast<void>(CudaStream::of(*stream).scratch(1000)); });
    };
  };

  EXPECT_EXIT(
      run_on({"TRIREME_EMULATED_GPUS", "1"}, record(100)), refused,
      "needs 1000 bytes of scratch memory while a graph is recorded, but its stream has 100");
  EXPECT_EXIT(run_on({"TRIREME_EMULATED_GPUS", "1"}, record(1000)), fine, "");
}

TEST_F(CudaDeviceDeathTest, BackEndsDoNotMeet) {
  const auto mix = [] {
    const auto cpu = Device::create(DeviceType::cpu);
    const auto cuda = Device::create(DeviceType::cuda);
    const auto stream = cpu->make_stream(StreamKind::compute);
    cuda->fill_zero(*stream, nullptr, 1);
  };

  EXPECT_EXIT(run_on({"TRIREME_EMULATED_GPUS", "1"}, mix), broken,
              "the CUDA back end got a cpu stream");
}

}  // namespace
}  // namespace trireme
