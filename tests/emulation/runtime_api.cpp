// SPDX-License-Identifier: Apache-2.0
// The device, its memory and copies of the emulated runtime.
#include "tests/emulation/runtime_api.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/emulation/include/nvtx3/nvToolsExt.h"
#include "tests/emulation/machine.h"

namespace trireme::emulated {
namespace {

constexpr int runtime_version = 13000;
constexpr int old_driver_version = 12020;

std::mutex pinned_mutex;
std::map<const char*, std::size_t> pinned_blocks;

bool holds_pinned(const void* data, std::size_t bytes) {
  const std::lock_guard lock(pinned_mutex);
  auto found = pinned_blocks.upper_bound(static_cast<const char*>(data));
  if (found == pinned_blocks.begin()) return false;
  --found;
  return static_cast<const char*>(data) + bytes <= found->first + found->second;
}

// A copy from or to pageable memory would not be asynchronous; one outside of any memory is a bug.
void require_known(const char* call, const void* data, std::size_t bytes) {
  if (in_device(data, bytes) || holds_pinned(data, bytes)) return;
  std::fprintf(stderr,
               "CUDA emulator: %s: %zu bytes at %p lie neither in one allocation of device memory "
               "nor in page-locked memory\n",
               call, bytes, data);
  std::abort();
}

}  // namespace

bool pinned(const void* address) {
  return holds_pinned(address, 1);
}

}  // namespace trireme::emulated

using namespace trireme::emulated;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorCudartUnloading:
      return "cudaErrorCudartUnloading";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "unknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const std::string& fault = Machine::get().fault;
  *version = fault == "no_driver"    ? 0
             : fault == "old_driver" ? old_driver_version
                                     : runtime_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine::get().gpus;
  if (Machine::get().fault == "no_driver" || Machine::get().fault == "old_driver")
    return cudaErrorInsufficientDriver;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

// Of the process: the engine uses one.
static std::atomic<int> current_device = 0;

cudaError_t cudaSetDevice(int device) {
  if (device >= Machine::get().gpus) return cudaErrorInvalidValue;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int capacity, int device) {
  std::snprintf(text, static_cast<std::size_t>(capacity), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 4;  // few, so that grid-stride loops go round more than once
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = Machine::get().fault == "old_gpu" ? 7 : 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

// GPUs of one machine are linked as by NVLink.
cudaError_t cudaDeviceCanAccessPeer(int* reachable, int from, int to) {
  *reachable = from != to ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr /*attribute*/, int from,
                                      int to) {
  *value = from != to ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
  properties->totalGlobalMem = Machine::get().memory_bytes;
  const cudaError_t major =
      cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor, device);
  const cudaError_t minor =
      cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == cudaSuccess ? minor : major;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Machine::get().memory_bytes;
  *free = *total - device_bytes_used();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  count(Asked::allocation);
  *data = allocate_device(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  return data == nullptr || release_device(data) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(pinned_mutex);
  pinned_blocks[static_cast<const char*>(*data)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(pinned_mutex);
  if (pinned_blocks.erase(static_cast<const char*>(data)) == 0) return cudaErrorInvalidValue;
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  require_known("cudaMemcpyAsync to", to, bytes);
  require_known("cudaMemcpyAsync from", from, bytes);
  return enqueue(
      stream, [=] { std::memcpy(to, from, bytes); }, Asked::copy);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  require_known("cudaMemsetAsync", to, bytes);
  return enqueue(
      stream, [=] { std::memset(to, value, bytes); }, Asked::copy);
}

cudaError_t cudaFuncSetAttribute(const void* /*function*/, cudaFuncAttribute /*attribute*/,
                                 int value) {
  constexpr int most_shared = 227 * 1024;  // sm_90
  return value <= most_shared ? cudaSuccess : cudaErrorInvalidValue;
}

static thread_local int open_ranges = 0;

int nvtxRangePushA(const char* name) {
  if (name == nullptr || *name == '\0') {
    std::fprintf(stderr, "CUDA emulator: a range without a name\n");
    std::abort();
  }
  count_range(name);
  return open_ranges++;
}

int nvtxRangePop() {
  if (open_ranges == 0) {
    std::fprintf(stderr, "CUDA emulator: nvtxRangePop without a range\n");
    std::abort();
  }
  return --open_ranges;
}
