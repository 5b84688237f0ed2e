// SPDX-License-Identifier: Apache-2.0
// The rules of TRIREME_EMULATED_CONTRACTS=all: run with two GPUs and a thread per stream.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "tests/emulation/waits.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

template <typename... Parameters>
cudaError_t launch(cudaStream_t stream, void (*kernel)(Parameters...),
                   std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void wait_until(std::atomic<bool>* go) {
  while (!*go)
    std::this_thread::sleep_for(1ms);
}
__global__ void set(std::atomic<bool>* flag) {
  *flag = true;
}
__global__ void set_too(std::atomic<bool>* flag) {
  *flag = true;
}

class EmulatedContracts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    stream = make_stream();
    other = make_stream();
  }
  void TearDown() override {
    go = true;
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  }
  // Whether `call` ends before a kernel that is at work on `stream`.
  template <typename Call>
  bool ends_beside_a_kernel(const Call& call) {
    go = false;
    EXPECT_EQ(launch(stream, wait_until, &go), cudaSuccess);
    auto ended = std::async(std::launch::async, [&] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      EXPECT_EQ(call(), cudaSuccess);
    });
    const bool at_once = ended.wait_for(100ms) == std::future_status::ready;
    go = true;
    ended.get();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return at_once;
  }

  std::atomic<bool> go = false, flag = false;
  cudaStream_t stream = nullptr, other = nullptr;
};

TEST_F(EmulatedContracts, MemoryCallsWaitForTheWholeDevice) {
  void *device = nullptr, *host = nullptr;

  EXPECT_FALSE(ends_beside_a_kernel([&] { return cudaMalloc(&device, 64); }));
  EXPECT_FALSE(ends_beside_a_kernel([&] { return cudaHostAlloc(&host, 64, 0); }));
  EXPECT_TRUE(ends_beside_a_kernel([&] { return cudaMemsetAsync(device, 0, 64, other); }));
  EXPECT_FALSE(ends_beside_a_kernel([&] { return cudaFree(device); }));
  EXPECT_FALSE(ends_beside_a_kernel([&] { return cudaFreeHost(host); }));
}

TEST_F(EmulatedContracts, TheFirstLaunchOfAKernelWaitsForTheWholeDevice) {
  EXPECT_FALSE(ends_beside_a_kernel([&] { return launch(other, set, &flag); }));
  EXPECT_TRUE(ends_beside_a_kernel([&] { return launch(other, set, &flag); }));
}

TEST_F(EmulatedContracts, UnsafeCallsAreRefusedWhileTheThreadCaptures) {
  void* data = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);

  EXPECT_EQ(cudaMalloc(&data, 64), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaHostAlloc(&data, 64, 0), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaFree(data), cudaErrorStreamCaptureUnsupported);
  std::thread([&] {  // another thread may
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  })
      .join();

  EXPECT_NE(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST_F(EmulatedContracts, AKernelNeedsTheDeviceOfItsStream) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);

  EXPECT_EQ(launch(stream, set, &flag), cudaErrorInvalidResourceHandle);

  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

// With one hardware queue, waiting work of a stream blocks the work behind it.
TEST_F(EmulatedContracts, StreamsThatShareAHardwareQueueWaitForEachOther) {
  const cudaEvent_t released = make_event();
  const cudaStream_t third = make_stream();
  ASSERT_EQ(launch(other, set_too, &flag), cudaSuccess);  // loads it
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  flag = false;

  ASSERT_EQ(launch(stream, wait_until, &go), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(released, stream, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(third, released, 0), cudaSuccess);
  ASSERT_EQ(launch(other, set_too, &flag), cudaSuccess);
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(flag) << "independent work went past work that waits, in a queue of both";
  go = true;
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_TRUE(flag);
  EXPECT_EQ(cudaStreamDestroy(third), cudaSuccess);
}

class ContractsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ContractsDeathTest, AThreadThatHasChosenNoDeviceIsNamedByItsCall) {
  EXPECT_DEATH(
      {
        cudaSetDevice(0);
        const cudaEvent_t event = make_event();
        std::thread([event] { cudaEventSynchronize(event); }).join();
      },
      "cudaEventSynchronize: this thread has chosen no GPU");
}

TEST_F(ContractsDeathTest, OtherThreadsThanTheMainOneMustSleepWhileWaiting) {
  const auto wait_beside = [](unsigned flags) {
    cudaSetDevice(0);
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming | flags);
    std::thread([event] {
      cudaSetDevice(0);
      cudaEventSynchronize(event);
    }).join();
  };

  wait_beside(cudaEventBlockingSync);
  EXPECT_DEATH(wait_beside(cudaEventDefault),
               "cudaEventSynchronize: a thread beside the main one spins");
}

TEST_F(ContractsDeathTest, AVariableSetAfterTheDriversFirstCallIsNamed) {
  EXPECT_DEATH(
      {
        unsetenv("CUDA_MODULE_LOADING");
        cudaSetDevice(0);
        setenv("CUDA_MODULE_LOADING", "EAGER", 1);
        make_stream();
      },
      "CUDA_MODULE_LOADING=EAGER was set after the driver had read its environment, at "
      "cudaSetDevice");
}

TEST_F(ContractsDeathTest, ADeadlockIsReportedWithItsWaits) {
  EXPECT_DEATH(
      {
        setenv("TRIREME_EMULATED_PATIENCE", "0.5", 1);
        cudaSetDevice(0);
        const cudaStream_t stream = make_stream();
        emulated::enqueue(stream, [] {
          const emulated::ScopedWait waiting("a test waits for nothing");
          std::this_thread::sleep_for(60s);
        });
        cudaStreamSynchronize(stream);
      },
      "deadlock: no rank of the job(.|\n)*main thread: cudaStreamSynchronize waits for stream "
      "0(.|\n)*a test waits for nothing");
}

}  // namespace
}  // namespace trireme
