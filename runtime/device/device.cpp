// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <algorithm>

#include "runtime/device/backends.h"

namespace trireme {

std::string_view name_of(DeviceType type) {
  return type == DeviceType::cpu ? "cpu" : "cuda";
}

std::string_view name_of(MemoryKind kind) {
  return kind == MemoryKind::device ? "device" : "host";
}

std::unique_ptr<Device> Device::create(DeviceType type, const DevicePlace& place) {
  if (type == DeviceType::cpu) return make_cpu_device();
  if (!in_build(type)) {
    fail(ExitCode::config,
         "device.type: cuda: the device is part of the cuda backend, which this build lacks; "
         "use cpu or auto, or build with CUDA");
  }
  return make_cuda_device(place);
}

bool Device::in_build(DeviceType type) {
  return type == DeviceType::cpu || make_cuda_device != nullptr;
}

int Device::count(DeviceType type) noexcept {
  if (type == DeviceType::cpu) return 1;
  return in_build(type) ? count_cuda_devices() : 0;
}

MemoryUse Device::memory_use(MemoryKind kind) const {
  const std::lock_guard lock(use_mutex_);
  return use_[static_cast<std::size_t>(kind)];
}

void Device::note_allocated(std::size_t bytes, MemoryKind kind) {
  const std::lock_guard lock(use_mutex_);
  MemoryUse& use = use_[static_cast<std::size_t>(kind)];
  use.current_bytes += bytes;
  use.peak_bytes = std::max(use.peak_bytes, use.current_bytes);
  ++use.allocations;
}

void Device::note_released(std::size_t bytes, MemoryKind kind) noexcept {
  const std::lock_guard lock(use_mutex_);
  use_[static_cast<std::size_t>(kind)].current_bytes -= bytes;
}

Buffer::Buffer(Device& device, std::size_t bytes, MemoryKind kind)
    : device_(&device), bytes_(bytes), kind_(kind) {
  if (bytes == 0) return;
  data_ = device.allocate(bytes, kind);
  device.note_allocated(bytes, kind);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  device_->release(data_, bytes_, kind_);
  device_->note_released(bytes_, kind_);
}

Tensor Buffer::view(DType dtype, const Shape& shape) const {
  const Tensor tensor{data_, dtype, shape};
  TRIREME_EXPECTS(tensor.bytes() <= bytes_, "a {} tensor {} needs {} bytes, the buffer has {}",
                  name_of(dtype), shape.to_string(), tensor.bytes(), bytes_);
  return tensor;
}

}  // namespace trireme
