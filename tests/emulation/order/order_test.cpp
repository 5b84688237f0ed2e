// SPDX-License-Identifier: Apache-2.0
// The check of stream order (order/): each mistake is reported with both sides, and the correct
// version is silent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/ops/common/reduce_cuda.h"

namespace trireme {
namespace {

constexpr int count = 256;
constexpr std::size_t bytes = count * sizeof(float);
constexpr int reported = 66;

__global__ void fill_values(float* to, float value) {
  to[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
__global__ void copy_values(float* to, const float* from) {
  to[threadIdx.x] = from[threadIdx.x];
}

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess);
}

struct OrderStream {
  cudaStream_t handle = nullptr;
  OrderStream() { check(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, 0)); }
  ~OrderStream() {
    synchronize();
    check(cudaStreamDestroy(handle));
  }
  OrderStream(const OrderStream&) = delete;
  OrderStream& operator=(const OrderStream&) = delete;

  template <typename... Parameters>
  void launch(void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) const {
    cudaLaunchConfig_t config{};
    config.blockDim = dim3(count);
    config.stream = handle;
    check(cudaLaunchKernelEx(&config, kernel, arguments...));
  }
  void copy(void* to, const void* from, std::size_t size = bytes) const {
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, handle));
  }
  void record(cudaEvent_t event) const {
    check(cudaEventRecordWithFlags(event, handle, cudaEventRecordDefault));
  }
  void wait(cudaEvent_t event) const { check(cudaStreamWaitEvent(handle, event, 0)); }
  void synchronize() const { check(cudaStreamSynchronize(handle)); }
};

// Two streams, memory of both kinds.
struct Bench {
  OrderStream compute, side;
  float *device = nullptr, *other = nullptr, *host = nullptr;
  cudaEvent_t done = nullptr, ready = nullptr;

  Bench() {
    for (float** const data : {&device, &other})
      check(cudaMalloc(reinterpret_cast<void**>(data), bytes));
    for (float* const data : {device, other})
      check(cudaMemsetAsync(data, 0, bytes, compute.handle));
    compute.synchronize();
    check(cudaHostAlloc(reinterpret_cast<void**>(&host), bytes, cudaHostAllocDefault));
    for (int i = 0; i < count; ++i)
      host[i] = 0.0F;
    for (cudaEvent_t* const event : {&done, &ready})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  ~Bench() {
    compute.synchronize();
    side.synchronize();
    check(cudaFree(device));
    check(cudaFree(other));
    check(cudaFreeHost(host));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void produce() const { compute.launch(fill_values, device, 1.0F); }
};

// With streams on threads, either side may come first.
constexpr const char* both_sides =
    "(read by kernel copy_values(.|\n)*written by kernel fill_values|"
    "written by kernel fill_values(.|\n)*read by kernel copy_values)";

using Scene = void (*)(const Bench& bench, bool right);

void play(Scene scene, bool right) {
  const Bench bench;
  scene(bench, right);
}

class StreamOrder : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // The wrong version ends with a report; the right one completes.
  static void expect_reported(Scene scene, const char* report) {
    EXPECT_EXIT(play(scene, false), testing::ExitedWithCode(reported), report);
    play(scene, true);
  }
};

TEST_F(StreamOrder, AMissingWaitBetweenStreamsIsReportedWithBothSides) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.produce();
    bench.compute.record(bench.done);
    if (right) bench.side.wait(bench.done);
    bench.side.copy(bench.host, bench.device);
  };

  expect_reported(scene,
                  "two accesses to the same memory are not ordered(.|\n)*byte 0 of 1024(.|\n)*"
                  "written by kernel fill_values(.|\n)*on stream 0");
}

TEST_F(StreamOrder, AMissingRecordIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.produce();
    if (right) bench.compute.record(bench.done);
    bench.side.wait(bench.done);
    bench.side.launch(copy_values, bench.other, bench.device);
  };

  expect_reported(scene, both_sides);
}

TEST_F(StreamOrder, ARecordBeforeTheWorkIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.produce();
    bench.compute.record(bench.done);
    bench.compute.launch(fill_values, bench.device, 2.0F);
    if (right) bench.compute.record(bench.done);
    bench.side.wait(bench.done);
    bench.side.launch(copy_values, bench.other, bench.device);
  };

  expect_reported(scene, "not ordered");
}

TEST_F(StreamOrder, AWriteDuringAnotherStreamsReadIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.produce();
    bench.compute.record(bench.done);
    bench.side.wait(bench.done);
    bench.side.launch(copy_values, bench.other, bench.device);
    bench.side.record(bench.ready);
    if (right) bench.compute.wait(bench.ready);
    bench.produce();
  };

  expect_reported(scene, both_sides);
}

TEST_F(StreamOrder, AWaitIsForTheRecordBeforeIt) {
  const Scene scene = [](const Bench& bench, bool right) {
    if (!right) bench.side.wait(bench.done);
    bench.produce();
    bench.compute.record(bench.done);
    if (right) bench.side.wait(bench.done);
    bench.side.launch(copy_values, bench.other, bench.device);
  };

  expect_reported(scene, "not ordered");
}

TEST_F(StreamOrder, OrderPassesThroughAThirdStreamAndThroughTheHost) {
  const Bench bench;
  const OrderStream third;

  bench.produce();
  bench.compute.record(bench.done);
  third.wait(bench.done);
  third.record(bench.ready);
  bench.side.wait(bench.ready);
  bench.side.launch(copy_values, bench.other, bench.device);
  bench.side.synchronize();
  third.launch(fill_values, bench.other, 2.0F);
}

TEST_F(StreamOrder, OnlyBytesThatAreTouchedCount) {
  const Bench bench;

  bench.produce();
  bench.side.launch(fill_values, bench.other, 1.0F);
  bench.compute.copy(bench.host, bench.device, bytes / 2);
  bench.side.copy(bench.host + count / 2, bench.other, bytes / 2);
}

TEST_F(StreamOrder, NeighbouringBytesAreNotOneAnother) {
  const Bench bench;
  const auto at = [&](std::size_t byte) { return reinterpret_cast<char*>(bench.device) + byte; };

  for (std::size_t byte = 0; byte < 4; ++byte) {
    const OrderStream& stream = byte % 2 == 0 ? bench.compute : bench.side;
    check(cudaMemsetAsync(at(byte), 0, 1, stream.handle));
  }

  EXPECT_EXIT(
      {
        check(cudaMemsetAsync(at(1), 0, 2, bench.compute.handle));
        bench.compute.synchronize();
        bench.side.synchronize();  // whichever of the two runs last reports
      },
      testing::ExitedWithCode(reported), "not ordered(.|\n)*byte [12] of 1024");
}

TEST_F(StreamOrder, FreeingMemoryInUseIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes));
    bench.compute.launch(fill_values, static_cast<float*>(data), 1.0F);
    if (right) bench.compute.synchronize();
    check(cudaFree(data));
  };

  expect_reported(scene,
                  "(freed while the device may use it|that the host has freed)(.|\n)*written by "
                  "kernel fill_values");
}

TEST_F(StreamOrder, ReallocatedMemoryHasNoHistory) {
  const Bench bench;
  void* data = nullptr;

  for (const OrderStream* const stream : {&bench.compute, &bench.side}) {
    check(cudaMalloc(&data, bytes));
    stream->launch(fill_values, static_cast<float*>(data), 1.0F);
    stream->synchronize();
    check(cudaFree(data));
  }
}

TEST_F(StreamOrder, FillingASlotThatACopyStillReadsIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.side.copy(bench.device, bench.host);
    bench.side.record(bench.done);
    if (right) check(cudaEventSynchronize(bench.done));
    bench.host[7] = 3.0F;
  };

  expect_reported(scene, "the host touches page-locked memory(.|\n)*byte 28 of 1024(.|\n)*written");
}

TEST_F(StreamOrder, ReadingDuringACopyIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.produce();
    bench.compute.copy(bench.host, bench.device);
    if (right) bench.compute.synchronize();
    EXPECT_EQ(bench.host[7], 1.0F);
  };

  expect_reported(scene, "the host touches page-locked memory(.|\n)*byte 28 of 1024(.|\n)*read");
}

TEST_F(StreamOrder, AnotherSlotOnTheSamePageIsFree) {
  const Bench bench;

  bench.produce();
  bench.compute.copy(bench.host, bench.device, bytes / 2);
  for (int i = count / 2; i < count; ++i)
    bench.host[i] = 3.0F;
  EXPECT_EQ(bench.host[count - 1], 3.0F);
  EXPECT_EXIT(EXPECT_EQ(bench.host[0], 1.0F), testing::ExitedWithCode(reported), "page-locked");
  bench.compute.synchronize();

  EXPECT_EQ(bench.host[count / 2 - 1], 1.0F);
}

TEST_F(StreamOrder, AQueryOrdersNothing) {
  EXPECT_EXIT(
      {
        const Bench bench;
        bench.produce();
        bench.compute.record(bench.done);
        while (cudaEventQuery(bench.done) != cudaSuccess) {
        }
        bench.side.launch(copy_values, bench.other, bench.device);
        bench.side.synchronize();
      },
      testing::ExitedWithCode(reported), "not ordered");
}

TEST_F(StreamOrder, ATimeThatTheHostHasNotWaitedForIsReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    cudaEvent_t start = nullptr, end = nullptr;
    for (cudaEvent_t* const event : {&start, &end}) {
      check(cudaEventCreateWithFlags(event, cudaEventDefault));
      bench.produce();
      bench.compute.record(*event);
    }
    while (cudaEventQuery(end) != cudaSuccess) {
    }
    if (right) check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end));
  };

  expect_reported(scene, "a time is asked for that the host has not waited for");
}

class GraphOrder : public StreamOrder {
 protected:
  static void begin(const Bench& bench) {
    check(cudaStreamBeginCapture(bench.compute.handle, cudaStreamCaptureModeThreadLocal));
  }
  // Replays the captured graph three times.
  static void replay(const Bench& bench) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cudaStreamEndCapture(bench.compute.handle, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; ++i)
      check(cudaGraphLaunch(executable, bench.compute.handle));
    bench.compute.synchronize();
    check(cudaGraphExecDestroy(executable));
    check(cudaGraphDestroy(graph));
  }
  static void fork(const Bench& bench) {
    bench.compute.record(bench.done);
    bench.side.wait(bench.done);
  }
  static void join(const Bench& bench) {
    bench.side.record(bench.ready);
    bench.compute.wait(bench.ready);
  }
};

TEST_F(GraphOrder, BranchesOfAGraphThatNoEdgeOrdersAreReported) {
  const Scene scene = [](const Bench& bench, bool right) {
    begin(bench);
    if (!right) fork(bench);
    bench.produce();
    if (right) fork(bench);
    bench.side.launch(copy_values, bench.other, bench.device);
    join(bench);
    bench.produce();
    replay(bench);
  };

  expect_reported(scene, "read by kernel copy_values(.|\n)*side branch of a graph on stream 0");
}

TEST_F(GraphOrder, WorkOutsideIsOrderedWithWholeLaunches) {
  const Scene scene = [](const Bench& bench, bool right) {
    bench.side.launch(fill_values, bench.other, 2.0F);
    bench.side.record(bench.ready);
    if (right) bench.compute.wait(bench.ready);
    begin(bench);
    fork(bench);
    bench.side.launch(copy_values, bench.device, bench.other);
    join(bench);
    replay(bench);
    bench.side.launch(fill_values, bench.device, 2.0F);
  };

  expect_reported(scene, both_sides);
}

TEST_F(GraphOrder, ACopyOfALaunchClosesItsSlot) {
  const Scene scene = [](const Bench& bench, bool right) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    begin(bench);
    bench.produce();
    bench.compute.copy(bench.host, bench.device);
    check(cudaStreamEndCapture(bench.compute.handle, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; ++i) {
      check(cudaGraphLaunch(executable, bench.compute.handle));
      if (right || i == 0) bench.compute.synchronize();
      EXPECT_EQ(bench.host[0], 1.0F);
    }
  };

  expect_reported(scene, "the host touches page-locked memory");
}

}  // namespace
}  // namespace trireme
