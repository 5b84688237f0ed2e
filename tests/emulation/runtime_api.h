// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA runtime API that the engine uses, on the host. Work enqueued on a stream
// runs
//   eager    at once: an infinitely fast GPU
//   lazy     only when the host waits for it: a missing wait reads old data
//   threads  on a thread per stream
// by the environment variable TRIREME_EMULATED_STREAMS. In the first two, host code outside of work
// cannot touch device memory: it faults. TRIREME_EMULATED_GPUS, _MEMORY (MiB) and _FAULT
// (no_driver, old_driver, old_gpu) describe the machine, TRIREME_EMULATED_CONTRACTS (contracts.h)
// further rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>

#include "tests/emulation/block.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907
};

namespace trireme::emulated {
struct Stream;
struct Event;
struct Graph;
enum class Asked : std::uint8_t;
// Puts host work on a stream, also for libraries emulated beside the runtime (cuBLASLt, NCCL).
cudaError_t enqueue(Stream* stream, std::function<void()> work, Asked kind,
                    const void* kernel = nullptr);
// Counts as a kernel: one of ours (named in reports) or a library's.
cudaError_t enqueue(Stream* stream, std::function<void()> work, const void* kernel = nullptr);
[[nodiscard]] bool pinned(const void* address);
// Called first by every call that uses the current device.
void called(const char* call);
[[nodiscard]] int current_device();
// For calls that synchronize the device by CUDA's documentation.
void wait_for_device(const char* call);
// Of a kernel, or a library's equivalent: its first use loads it.
[[nodiscard]] cudaError_t before_launch(const Stream* stream, std::size_t kernel);
[[nodiscard]] cudaError_t accepts_launch(const Stream* stream);
// For calls that a thread may not make during a capture.
[[nodiscard]] cudaError_t refuse_in_capture();
[[nodiscard]] bool captures(const Stream* stream);
// Simulates a library's internal streams, which occupy hardware queues.
void make_library_streams(int count);
}  // namespace trireme::emulated

using cudaStream_t = trireme::emulated::Stream*;
using cudaEvent_t = trireme::emulated::Event*;
using cudaGraph_t = trireme::emulated::Graph*;
using cudaGraphExec_t = trireme::emulated::Graph*;
using dim3 = trireme::emulated::Dim3;

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0;
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int capacity, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
enum cudaDeviceP2PAttr { cudaDevP2PAttrNativeAtomicSupported = 3 };
cudaError_t cudaDeviceCanAccessPeer(int* reachable, int from, int to);
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to);
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  std::size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
inline constexpr unsigned cudaEventRecordDefault = 0;
inline constexpr unsigned cudaEventRecordExternal = 1;
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const cudaError_t refused =
      trireme::emulated::before_launch(config->stream, reinterpret_cast<std::size_t>(kernel));
  if (refused != cudaSuccess) return refused;
  std::tuple<std::decay_t<Parameters>...> values(arguments...);
  return trireme::emulated::enqueue(
      config->stream,
      [grid = config->gridDim, block = config->blockDim, shared = config->dynamicSmemBytes, kernel,
       values] {
        trireme::emulated::run_grid(grid, block, shared, [&] { std::apply(kernel, values); });
      },
      reinterpret_cast<const void*>(kernel));
}
