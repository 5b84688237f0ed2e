// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_device.h"

#include <cstdlib>
#include <exception>

#include "runtime/device/backends.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/device/gpu_facts.h"

namespace trireme {
namespace {

std::string name_of_gpu(int index) {
  cudaDeviceProp properties{};
  TRIREME_CUDA(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

int choose_index(const DevicePlace& place) {
  const int count = cuda_device_count();
  if (place.local_size > count && !place.share && is_slice(name_of_gpu(0))) {
    fail(ExitCode::config,
         "device.type: cuda: {} ranks on this host see {}, because CUDA shows a process one slice "
         "of a GPU (MIG); give each rank its own with CUDA_VISIBLE_DEVICES=MIG-... (nvidia-smi -L "
         "lists them), start one rank, or set device.share: true to let ranks take turns",
         place.local_size, name_of_gpu(0));
  }
  if (place.local_size > count && !place.share) {
    fail(ExitCode::config,
         "device.type: cuda: {} ranks on this host and {} GPU{}; start at most {} rank{} per host, "
         "or set device.share: true to let ranks take turns on a GPU",
         place.local_size, count, count == 1 ? "" : "s", count, count == 1 ? "" : "s");
  }
  return place.local_rank % count;
}

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int cuda_device_count() {
  int driver = 0, runtime = 0, count = 0;
  TRIREME_CUDA(cudaRuntimeGetVersion(&runtime));
  TRIREME_CUDA(cudaDriverGetVersion(&driver));
  if (driver == 0) {
    fail(
        ExitCode::config,
        "device.type: cuda: no NVIDIA driver is loaded on this host (this build needs one for CUDA "
        "{}); install it, or use device.type: cpu",
        cuda_version_text(runtime));
  }
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver) {
    fail(ExitCode::config,
         "device.type: cuda: the NVIDIA driver supports CUDA {}, but this build needs {}; update "
         "the driver, or use device.type: cpu",
         cuda_version_text(driver), cuda_version_text(runtime));
  }
  if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0)) {
    fail(
        ExitCode::config,
        "device.type: cuda: the driver shows no GPU to this process (CUDA_VISIBLE_DEVICES={}); use "
        "device.type: cpu, or a host or job with a GPU",
        std::getenv("CUDA_VISIBLE_DEVICES") == nullptr ? "unset"
                                                       : std::getenv("CUDA_VISIBLE_DEVICES"));
  }
  TRIREME_CUDA(found);
  return count;
}

namespace cuda {

int count_cuda_devices() noexcept {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());  // unchecked: clears the error
  return found == cudaSuccess ? count : 0;
}

std::unique_ptr<Device> make_cuda_device(const DevicePlace& place) {
  return std::make_unique<CudaDevice>(place);
}

std::unique_ptr<Device> make_counting_cuda_device() {
  constexpr int h100 = 90, multiprocessors_of_sxm5 = 132;
  return std::make_unique<CudaDevice>(h100, multiprocessors_of_sxm5);
}

TRIREME_CUDA_PROVIDES(trireme, count_cuda_devices);
TRIREME_CUDA_PROVIDES(trireme, make_counting_cuda_device);
TRIREME_CUDA_PROVIDES(trireme, make_cuda_device);

}  // namespace cuda

CudaDevice::CudaDevice(const DevicePlace& place) : index_(choose_index(place)) {
  int major = 0, minor = 0;
  TRIREME_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_));
  TRIREME_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index_));
  TRIREME_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index_));
  capability_ = 10 * major + minor;
  if (capability_ < oldest_capability) {
    fail(ExitCode::config,
         "device.type: cuda: GPU {} has compute capability {}.{}; this build needs {}.{} or newer",
         index_, major, minor, oldest_capability / 10, oldest_capability % 10);
  }
  choose_device(index_);
}

CudaDevice::CudaDevice(int capability, int multiprocessors)
    : multiprocessors_(multiprocessors), capability_(capability), described_(true) {}

std::string CudaDevice::name() const {
  if (described_) return fmt::format("described GPU, {} multiprocessors", multiprocessors_);
  return fmt::format("{}, {} multiprocessors", name_of_gpu(index_), multiprocessors_);
}

CudaDevice& CudaDevice::of(Device& device) {
  auto* const found = dynamic_cast<CudaDevice*>(&device);
  TRIREME_EXPECTS(found != nullptr, "the CUDA back end got a {} device", name_of(device.type()));
  return *found;
}

std::unique_ptr<Stream> CudaDevice::make_stream(StreamKind kind) {
  return std::make_unique<CudaStream>(*this, kind);
}

std::unique_ptr<Event> CudaDevice::make_event(EventKind kind) {
  if (described_) return make_dry_event();
  return std::make_unique<CudaEvent>(kind, index_);
}

void CudaDevice::copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  note_copy(to, from, bytes);
  if (described_) return;
  TRIREME_CUDA(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, CudaStream::of(stream).handle()));
}

void CudaDevice::fill_zero(Stream& stream, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  note_fill(bytes);
  if (described_) return;
  TRIREME_CUDA(cudaMemsetAsync(to, 0, bytes, CudaStream::of(stream).handle()));
}

std::unique_ptr<Graph> CudaDevice::capture(Stream& stream, const std::function<void()>& work) {
  TRIREME_EXPECTS(!described_, "nothing runs on a described GPU, so nothing can be recorded");
  return std::make_unique<CudaGraph>(CudaStream::of(stream), work);
}

std::optional<DeviceMemory> CudaDevice::memory() const {
  if (described_) return {};
  choose_device(index_);
  DeviceMemory memory{.gpu = gpu_id(index_)};
  TRIREME_CUDA(cudaMemGetInfo(&memory.free, &memory.total));
  return memory;
}

std::byte* CudaDevice::allocate(std::size_t bytes, MemoryKind kind) {
  if (described_) {
    std::byte* const reserved = reserve_memory(bytes);
    if (reserved == nullptr) out_of_memory(bytes, kind, "the address space");
    return reserved;
  }
  choose_device(index_);  // loader threads also allocate
  void* data = nullptr;
  const cudaError_t code = kind == MemoryKind::device
                               ? cudaMalloc(&data, bytes)
                               : cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (code == cudaErrorMemoryAllocation) {
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaGetLastError());  // unchecked: clears the error
    TRIREME_CUDA(cudaMemGetInfo(&free, &total));
    out_of_memory(bytes, kind, fmt::format("GPU {}", index_), free, total);
  }
  detail::check_cuda(code, kind == MemoryKind::device ? "cudaMalloc" : "cudaHostAlloc");
  return static_cast<std::byte*>(data);
}

void CudaDevice::release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept {
  if (described_) return release_reserved(data, bytes);
  // During unwinding kernels may wait for a peer that waits for this rank, and freeing waits for
  // the kernels. The end of the process frees the memory.
  if (std::uncaught_exceptions() > 0) return;
  detail::report_cuda(cudaSetDevice(index_), "cudaSetDevice");
  if (kind == MemoryKind::device) {
    detail::report_cuda(cudaFree(data), "cudaFree");
  } else {
    detail::report_cuda(cudaFreeHost(data), "cudaFreeHost");
  }
}

}  // namespace trireme
