// SPDX-License-Identifier: Apache-2.0
// The device, its memory and copies of the emulated runtime.
#include "tests/emulation/runtime_api.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/emulation/contracts.h"
#include "tests/emulation/include/nvtx3/nvToolsExt.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/order/accesses.h"
#include "tests/emulation/order/operations.h"

namespace trireme::emulated {
namespace {

constexpr int runtime_version = 13000;
constexpr int old_driver_version = 12020;

std::mutex pinned_mutex;
std::map<const char*, std::size_t> pinned_blocks;

std::mutex loaded_mutex;
std::set<std::size_t> loaded_kernels;

// Per thread; without a choice, CUDA uses GPU 0 and creates a context there.
constexpr int none_chosen = -1;
thread_local int chosen_device = none_chosen;

bool holds_pinned(const void* data, std::size_t bytes) {
  const std::lock_guard lock(pinned_mutex);
  auto found = pinned_blocks.upper_bound(static_cast<const char*>(data));
  if (found == pinned_blocks.begin()) return false;
  --found;
  return static_cast<const char*>(data) + bytes <= found->first + found->second;
}

// The GPUs of the machine that this process sees, as numbers in CUDA_VISIBLE_DEVICES.
const std::vector<int>& visible_gpus() {
  static const std::vector<int> gpus = [] {
    const int slices = Machine::get().slices;
    const int there = Machine::get().gpus * std::max(1, slices);
    std::vector<int> found;
    const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) {
      for (int gpu = 0; gpu < (slices > 0 ? 1 : there); ++gpu)
        found.push_back(gpu);
      return found;
    }
    std::istringstream list(text);
    for (std::string number; std::getline(list, number, ',');) {
      const int gpu = std::atoi(number.c_str());
      if (gpu < 0 || gpu >= there || (slices > 0 && !found.empty())) break;
      found.push_back(gpu);
    }
    return found;
  }();
  return gpus;
}
int gpu_count() {
  return static_cast<int>(visible_gpus().size());
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

int current_device() {
  return chosen_device == none_chosen ? 0 : chosen_device;
}

void called(const char* call) {
  driver_called(call);
  if (chosen_device != none_chosen || gpu_count() < 2 || !holds(Contract::devices)) return;
  breach(call, "this thread has chosen no GPU (cudaSetDevice), so CUDA opens a context on GPU 0");
}

// A capture does not run the kernel, but may load its module.
cudaError_t before_launch(const Stream* stream, std::size_t kernel) {
  called("cudaLaunchKernelEx");
  if (const cudaError_t refused = accepts_launch(stream); refused != cudaSuccess) return refused;
  if (!holds(Contract::implicit_waits) || loads_eagerly() || captures(stream)) return cudaSuccess;
  {
    const std::lock_guard lock(loaded_mutex);
    if (!loaded_kernels.insert(kernel).second) return cudaSuccess;
  }
  wait_for_device("the first launch of a kernel, which loads it,");
  return cudaSuccess;
}

// Before calls that are unsafe in a capture or synchronize the device.
static cudaError_t before_memory_call(const char* call) {
  called(call);
  if (holds(Contract::captures)) {
    if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  }
  wait_for_device(call);
  return cudaSuccess;
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
  driver_called("cudaGetDeviceCount");
  *count = gpu_count();
  if (Machine::get().fault == "no_driver" || Machine::get().fault == "old_driver")
    return cudaErrorInsufficientDriver;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  driver_called("cudaSetDevice");
  if (device >= gpu_count()) return cudaErrorInvalidValue;
  chosen_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int capacity, int device) {
  std::snprintf(
      text, static_cast<std::size_t>(capacity), "0000:%02x:00.0",
      visible_gpus()[static_cast<std::size_t>(device)] / std::max(1, Machine::get().slices) + 1);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  driver_called("cudaGetDevice");
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = std::max(1, Machine::get().processors / std::max(1, Machine::get().slices));
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = Machine::get().capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = Machine::get().capability % 10;
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
  std::snprintf(properties->name, sizeof(properties->name), "%s",
                Machine::get().slices > 0 ? "Emulated GPU MIG 1g.4gb" : "Emulated GPU");
  static_cast<void>(cudaDeviceGetAttribute(&properties->multiProcessorCount,
                                           cudaDevAttrMultiProcessorCount, device));
  properties->uuid = {};
  properties->uuid.bytes[0] =
      static_cast<char>(visible_gpus()[static_cast<std::size_t>(device)] + 1);
  properties->totalGlobalMem = Machine::get().memory_bytes;
  const cudaError_t major =
      cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor, device);
  const cudaError_t minor =
      cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == cudaSuccess ? minor : major;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  called("cudaMemGetInfo");
  *total = Machine::get().memory_bytes;
  *free = *total - device_bytes_used();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (const cudaError_t refused = before_memory_call("cudaMalloc"); refused != cudaSuccess)
    return refused;
  count(Asked::allocation);
  *data = allocate_device(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (const cudaError_t refused = before_memory_call("cudaFree"); refused != cudaSuccess)
    return refused;
  return data == nullptr || release_device(data) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  if (const cudaError_t refused = before_memory_call("cudaHostAlloc"); refused != cudaSuccess)
    return refused;
  *data = order::on() ? order::allocate_pinned(bytes)
                      : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(pinned_mutex);
  pinned_blocks[static_cast<const char*>(*data)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  if (const cudaError_t refused = before_memory_call("cudaFreeHost"); refused != cudaSuccess)
    return refused;
  const std::lock_guard lock(pinned_mutex);
  if (pinned_blocks.erase(static_cast<const char*>(data)) == 0) return cudaErrorInvalidValue;
  if (order::on()) {
    order::release_pinned(data);
  } else {
    std::free(data);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  called("cudaMemcpyAsync");
  require_known("cudaMemcpyAsync to", to, bytes);
  require_known("cudaMemcpyAsync from", from, bytes);
  if (order::on()) {
    order::uses_pinned(to, bytes, true);
    order::uses_pinned(from, bytes, false);
  }
  return enqueue(
      stream,
      [=] {
        order::copied(to, from, bytes);
        std::memcpy(order::device_view(to), order::device_view(from), bytes);
      },
      Asked::copy);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  called("cudaMemsetAsync");
  require_known("cudaMemsetAsync", to, bytes);
  if (order::on()) order::uses_pinned(to, bytes, true);
  return enqueue(
      stream,
      [=] {
        order::wrote(to, bytes);
        std::memset(order::device_view(to), value, bytes);
      },
      Asked::copy);
}

cudaError_t cudaFuncSetAttribute(const void* /*function*/, cudaFuncAttribute /*attribute*/,
                                 int value) {
  called("cudaFuncSetAttribute");
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
  if (order::on()) order::push_range(name);
  return open_ranges++;
}

int nvtxRangePop() {
  if (open_ranges == 0) {
    std::fprintf(stderr, "CUDA emulator: nvtxRangePop without a range\n");
    std::abort();
  }
  if (order::on()) order::pop_range();
  return --open_ranges;
}
