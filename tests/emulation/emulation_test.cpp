// SPDX-License-Identifier: Apache-2.0
// The emulator detects mistakes that a GPU may hide. Run in every stream mode.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/ops/common/reduce_cuda.h"

namespace trireme {
namespace {

using ops::cuda::Sum;

std::string stream_mode() {
  const char* const mode = std::getenv("TRIREME_EMULATED_STREAMS");
  return mode == nullptr ? "eager" : mode;
}

// A stream, a block of device memory and one of page-locked memory.
struct Machine {
  cudaStream_t stream = nullptr;
  float* device = nullptr;
  float* host = nullptr;
  static constexpr std::size_t bytes = 1024 * sizeof(float);

  Machine() {
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), bytes), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&host), bytes, cudaHostAllocDefault),
              cudaSuccess);
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
      host[i] = -1.0F;
  }
  ~Machine() {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(device), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  template <typename... Parameters>
  void launch(unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = stream;
    EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
  }
  void fetch() const {
    EXPECT_EQ(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDefault, stream), cudaSuccess);
  }
  void synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }
};

constexpr int threads = 128;

__global__ void block_sums(float* sums) {
  const float sum = ops::cuda::block_reduce<threads>(
      static_cast<float>(blockIdx.x * threads + threadIdx.x), 0.0F, Sum{});
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void fill(float* to, float value) {
  to[threadIdx.x] = value;
}

TEST(EmulatedBlock, ReducesThroughShufflesAndSharedMemory) {
  const Machine machine;

  machine.launch(3, threads, block_sums, machine.device);
  machine.fetch();
  machine.synchronize();

  for (int block = 0; block < 3; ++block)
    EXPECT_EQ(machine.host[block], 128.0F * 127 / 2 + 128.0F * 128 * static_cast<float>(block));
}

class EmulationDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void run(unsigned count, void (*kernel)(float*)) {
  const Machine machine;
  machine.launch(1, count, kernel, machine.device);
  machine.synchronize();
}

__global__ void leave_before_barrier(float* /*to*/) {
  if (threadIdx.x >= 16) return;
  __syncthreads();
}
__global__ void wait_at_different_barriers(float* /*to*/) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
__global__ void shuffle_without_all_lanes(float* to) {
  if (threadIdx.x < 16) to[threadIdx.x] = __shfl_xor_sync(~0U, to[threadIdx.x], 1);
}

TEST_F(EmulationDeathTest, ThreadsMustAgreeOnTheirBarriers) {
  EXPECT_DEATH(run(64, leave_before_barrier), "returned while others wait at __syncthreads");
  EXPECT_DEATH(run(32, wait_at_different_barriers), "wait for each other for ever");
}

TEST_F(EmulationDeathTest, AllLanesThatAMaskNamesMustShuffle) {
  EXPECT_DEATH(run(32, shuffle_without_all_lanes),
               "wait for each other for ever(.|\n)*thread 0: at a warp barrier(.|\n)*thread 16: "
               "returned");
}

#if defined(__SANITIZE_THREAD__)
// block_reduce without its first barrier.
__global__ void race_for_partial_sums(float* sums) {
  __shared__ float partial[threads / 32];
  const float sum = ops::cuda::warp_reduce(static_cast<float>(threadIdx.x), Sum{});
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  if (threadIdx.x == 0) sums[0] = partial[0] + partial[1] + partial[2] + partial[3];
}
// Both blocks write the same element. (Threads of equal index are one fiber, which is ordered.)
__global__ void race_between_blocks(float* to) {
  if (threadIdx.x == blockIdx.x) to[0] = static_cast<float>(blockIdx.x);
}

void run_and_exit(unsigned blocks, void (*kernel)(float*)) {
  {
    const Machine machine;
    machine.launch(blocks, threads, kernel, machine.device);
    machine.synchronize();
  }
  std::exit(0);
}

TEST_F(EmulationDeathTest, ThreadSanitizerSeesAMissingBarrier) {
  constexpr int race_found = 66;

  EXPECT_EXIT(run_and_exit(2, block_sums), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_and_exit(1, race_for_partial_sums), testing::ExitedWithCode(race_found),
              "data race");
  EXPECT_EXIT(run_and_exit(2, race_between_blocks), testing::ExitedWithCode(race_found),
              "data race");
}
#endif

#if defined(__SANITIZE_ADDRESS__)
__global__ void write_behind_the_end(float* to) {
  if (threadIdx.x == 0) to[Machine::bytes / sizeof(float)] = 1;
}
__global__ void read_before_the_beginning(float* to) {
  if (threadIdx.x == 0) to[0] = to[-1];
}

void write_after_free() {
  const Machine machine;
  float* freed = nullptr;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&freed), Machine::bytes), cudaSuccess);
  EXPECT_EQ(cudaFree(freed), cudaSuccess);
  machine.launch(1, 1, fill, freed, 1.0F);
  machine.synchronize();
}

TEST_F(EmulationDeathTest, AddressSanitizerSeesAccessesOutsideOfAllocations) {
  constexpr const char* found = "AddressSanitizer: use-after-poison";

  EXPECT_DEATH(run(32, write_behind_the_end), found);
  EXPECT_DEATH(run(32, read_before_the_beginning), found);
  EXPECT_DEATH(write_after_free(), found);
}
#endif

TEST_F(EmulationDeathTest, TheHostCannotTouchDeviceMemory) {
  if (stream_mode() == "threads") GTEST_SKIP() << "memory is open: some stream may be at work";

  EXPECT_DEATH(
      {
        const Machine machine;
        machine.launch(1, 1, fill, machine.device, 1.0F);
        machine.synchronize();
        *static_cast<volatile float*>(machine.device) = 2.0F;
      },
      "");
}

TEST_F(EmulationDeathTest, CopiesNeedPageLockedMemoryAndStayInside) {
  const auto copy = [](bool pageable) {
    const Machine machine;
    std::vector<float> other(Machine::bytes / sizeof(float));
    const void* const from = pageable ? other.data() : machine.host + 1;
    static_cast<void>(
        cudaMemcpyAsync(machine.device, from, Machine::bytes, cudaMemcpyDefault, machine.stream));
  };
  const char* const message = "lie neither in one allocation of device memory nor in page-locked";

  EXPECT_DEATH(copy(true), message);
  EXPECT_DEATH(copy(false), message);
}

TEST(EmulatedStreams, LazyWorkWaitsForTheHost) {
  const Machine machine;

  machine.launch(1, 4, fill, machine.device, 5.0F);
  machine.fetch();
  if (stream_mode() == "lazy") {
    EXPECT_EQ(machine.host[0], -1.0F);
  }
  machine.synchronize();

  EXPECT_EQ(machine.host[3], 5.0F);
}

TEST(EmulatedStreams, LazyWorkShowsAMissingWaitBetweenStreams) {
  const Machine producer, consumer;
  cudaEvent_t produced = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&produced, cudaEventDisableTiming), cudaSuccess);
  const auto fetch = [&] {
    ASSERT_EQ(cudaMemcpyAsync(consumer.host, producer.device, Machine::bytes, cudaMemcpyDefault,
                              consumer.stream),
              cudaSuccess);
    consumer.synchronize();
  };

  producer.launch(1, 4, fill, producer.device, 5.0F);
  ASSERT_EQ(cudaEventRecordWithFlags(produced, producer.stream, cudaEventRecordDefault),
            cudaSuccess);
  if (stream_mode() == "lazy") {
    fetch();
    EXPECT_TRUE(std::isnan(consumer.host[0])) << "the consumer did not wait";
  }
  ASSERT_EQ(cudaStreamWaitEvent(consumer.stream, produced, 0), cudaSuccess);
  fetch();

  EXPECT_EQ(consumer.host[0], 5.0F);
  EXPECT_EQ(cudaEventDestroy(produced), cudaSuccess);
}

class EmulatedCapture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  }
  void TearDown() override { EXPECT_EQ(cudaEventDestroy(event), cudaSuccess); }
  void begin() const {
    ASSERT_EQ(cudaStreamBeginCapture(main.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  // Makes `to` wait for the work on `from` so far.
  [[nodiscard]] cudaError_t join(const Machine& to, const Machine& from) const {
    EXPECT_EQ(cudaEventRecordWithFlags(event, from.stream, cudaEventRecordDefault), cudaSuccess);
    return cudaStreamWaitEvent(to.stream, event, 0);
  }
  [[nodiscard]] cudaError_t end() { return cudaStreamEndCapture(main.stream, &graph); }

  Machine main, side;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
};

TEST_F(EmulatedCapture, RecordsInsteadOfRunningAndReplays) {
  cudaGraphExec_t executable = nullptr;

  begin();
  main.launch(1, 4, fill, main.device, 5.0F);
  EXPECT_EQ(join(side, main), cudaSuccess);
  side.launch(1, 4, fill, side.device, 6.0F);
  EXPECT_EQ(join(main, side), cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  main.fetch();
  main.synchronize();
  EXPECT_TRUE(std::isnan(main.host[0]));
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, main.stream), cudaSuccess);
  main.fetch();
  main.synchronize();
  side.fetch();
  side.synchronize();

  EXPECT_EQ(main.host[0], 5.0F);
  EXPECT_EQ(side.host[0], 6.0F);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(EmulatedCapture, RefusesToSynchronize) {
  begin();

  EXPECT_EQ(cudaStreamSynchronize(side.stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnsupported);
}

TEST_F(EmulatedCapture, RefusesToWaitForWorkOutside) {
  begin();

  EXPECT_EQ(join(main, side), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(), cudaErrorStreamCaptureIsolation);
}

TEST_F(EmulatedCapture, RefusesAForkThatDoesNotComeBack) {
  begin();
  EXPECT_EQ(join(side, main), cudaSuccess);
  side.launch(1, 4, fill, side.device, 6.0F);

  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
}

}  // namespace
}  // namespace trireme
