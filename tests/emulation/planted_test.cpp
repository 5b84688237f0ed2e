// SPDX-License-Identifier: Apache-2.0
// Memory errors planted in small kernels: each is reported, and the correct kernel is silent.
// README.md has the table of detectors. Compiled as order/README.md describes.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace trireme {
namespace {

constexpr unsigned count = 100;  // not a multiple of the granule that cudaMalloc rounds up to
constexpr std::size_t bytes = count * sizeof(float);
constexpr unsigned threads = 128;
constexpr int reported = 66;

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess);
}

// A stream and memory of both kinds; only `values` is initialized.
struct PlantedMemory {
  cudaStream_t stream = nullptr;
  float *values = nullptr, *empty = nullptr, *host = nullptr;

  PlantedMemory() {
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    for (float** const data : {&values, &empty})
      check(cudaMalloc(reinterpret_cast<void**>(data), bytes));
    check(cudaHostAlloc(reinterpret_cast<void**>(&host), bytes, cudaHostAllocDefault));
    check(cudaMemsetAsync(values, 0, bytes, stream));
  }
  ~PlantedMemory() {
    synchronize();
    check(cudaFree(values));
    check(cudaFree(empty));
    check(cudaFreeHost(host));
    check(cudaStreamDestroy(stream));
  }
  PlantedMemory(const PlantedMemory&) = delete;
  PlantedMemory& operator=(const PlantedMemory&) = delete;

  void synchronize() const { check(cudaStreamSynchronize(stream)); }
  void copy(float* to, const float* from) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  }
  template <typename... Parameters>
  void launch(std::size_t shared_bytes, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) const {
    cudaLaunchConfig_t config{};
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    check(cudaLaunchKernelEx(&config, kernel, arguments...));
  }
};

// Only the first `n` threads write; a kernel without that check passes all threads as `n`.
__global__ void write_values(float* to, unsigned n) {
  if (threadIdx.x < n) to[threadIdx.x] = 1.0F;
}
__global__ void copy_values(float* to, const float* from, unsigned n) {
  if (threadIdx.x < n) to[threadIdx.x] = from[threadIdx.x];
}

using Scene = void (*)(const PlantedMemory& memory, bool right);

class Planted : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void play(Scene scene, bool right) {
    const PlantedMemory memory;
    scene(memory, right);
  }
  static void expect_reported(Scene scene, const char* report) {
    EXPECT_EXIT(play(scene, false), testing::ExitedWithCode(reported), report);
    play(scene, true);
  }
  static void expect_death(Scene scene, const char* message) {
    EXPECT_DEATH(play(scene, false), message);
    play(scene, true);
  }
};

TEST_F(Planted, AWriteBehindTheEndOfABuffer) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(0, write_values, memory.values, right ? count : threads);
      },
      "memory that is in no allocation(.|\n)*0 bytes behind the end of 400 (.|\n)*"
      "written by kernel write_values");
}

TEST_F(Planted, AReadBehindTheEndOfABuffer) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        float* larger = nullptr;
        check(cudaMalloc(reinterpret_cast<void**>(&larger), threads * sizeof(float)));
        memory.launch(0, copy_values, larger, memory.values, right ? count : threads);
        memory.synchronize();
        check(cudaFree(larger));
      },
      "memory that is in no allocation(.|\n)*0 bytes behind the end of 400 (.|\n)*"
      "read by kernel copy_values");
}

TEST_F(Planted, AWriteBeforeTheBeginningOfABuffer) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(0, write_values, memory.empty - (right ? 0 : 1), count);
      },
      "memory that is in no allocation(.|\n)*written by kernel write_values");
}

// The host has waited, so it is no matter of order.
TEST_F(Planted, AUseOfFreedMemory) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        float* freed = nullptr;
        check(cudaMalloc(reinterpret_cast<void**>(&freed), bytes));
        memory.launch(0, write_values, freed, count);
        memory.synchronize();
        if (!right) check(cudaFree(freed));
        memory.launch(0, write_values, freed, count);
        memory.synchronize();
        if (right) check(cudaFree(freed));
      },
      "uses memory that the host has freed(.|\n)*written by kernel write_values");
}

TEST_F(Planted, AUseOfFreedAndReallocatedMemory) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        float *freed = nullptr, *again = nullptr;
        check(cudaMalloc(reinterpret_cast<void**>(&freed), bytes));
        memory.synchronize();
        check(cudaFree(freed));
        check(cudaMalloc(reinterpret_cast<void**>(&again), bytes));
        memory.launch(0, write_values, right ? again : freed, count);
        memory.synchronize();
        check(cudaFree(again));
      },
      "uses memory that the host has freed(.|\n)*written by kernel write_values");
}

TEST_F(Planted, AReadOfUnwrittenMemory) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(0, copy_values, memory.values, right ? memory.values : memory.empty, count);
      },
      "memory is read that nothing has written(.|\n)*byte 0 of 400 (.|\n)*"
      "read by kernel copy_values");
}

TEST_F(Planted, AReadOfTheLastValueThatAKernelLeftOut) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(0, write_values, memory.empty, right ? count : count - 1);
        memory.launch(0, copy_values, memory.values, memory.empty, count);
      },
      "memory is read that nothing has written(.|\n)*byte 396 of 400 ");
}

TEST_F(Planted, AReadOfACopyOfUnwrittenMemory) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        float* copy = nullptr;
        check(cudaMalloc(reinterpret_cast<void**>(&copy), bytes));
        memory.copy(copy, right ? memory.values : memory.empty);
        memory.launch(0, copy_values, memory.values, copy, count);
        memory.synchronize();
        check(cudaFree(copy));
      },
      "memory is read that nothing has written(.|\n)*read by kernel copy_values");
}

TEST_F(Planted, ACopyOfUnwrittenMemoryToTheHost) {
  expect_reported(
      [](const PlantedMemory& memory, bool right) {
        memory.copy(memory.host, right ? memory.values : memory.empty);
      },
      "memory is read that nothing has written(.|\n)*read by cudaMemcpyAsync");
}

__global__ void through_shared(float* to, unsigned index) {
  auto* const shared = static_cast<float*>(emulated::dynamic_shared());
  shared[threadIdx.x] = 1.0F;
  __syncthreads();
  if (threadIdx.x == 0) shared[index] = 2.0F;
  if (threadIdx.x == 0) to[0] = shared[0];
}

TEST_F(Planted, AWriteJustBehindTheDynamicSharedMemory) {
  expect_death(
      [](const PlantedMemory& memory, bool right) {
        constexpr unsigned room = threads + 1;  // ends within 16 bytes
        memory.launch(room * sizeof(float), through_shared, memory.values, right ? room - 1 : room);
      },
      "it wrote behind the end of its shared memory");
}

TEST_F(Planted, AnAccessFartherBehindTheDynamicSharedMemoryFaults) {
  expect_death(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(threads * sizeof(float), through_shared, memory.values, right ? 0 : threads);
      },
      "");
}

__global__ void through_static_shared(float* to, unsigned index) {
  __shared__ float shared[threads];
  shared[threadIdx.x] = 1.0F;
  __syncthreads();
  if (threadIdx.x == 0) to[0] = shared[index];
}

TEST_F(Planted, AnIndexBeyondAStaticSharedArray) {
  expect_death(
      [](const PlantedMemory& memory, bool right) {
        memory.launch(0, through_static_shared, memory.values, right ? 0 : threads);
      },
      "index 128 out of bounds");
}

__global__ void store_pack(float* to) {
  if (threadIdx.x == 0) *reinterpret_cast<float4*>(to) = float4{1, 2, 3, 4};
}

TEST_F(Planted, APackAtAnAddressThatIsNotAlignedToIt) {
  expect_death([](const PlantedMemory& memory,
                  bool right) { memory.launch(0, store_pack, memory.values + (right ? 4 : 1)); },
               "misaligned address");
}

}  // namespace
}  // namespace trireme
