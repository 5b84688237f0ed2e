// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <algorithm>
#include <utility>

#include "runtime/device/backends.h"
#include "runtime/device/cuda_slot.h"

namespace trireme {
namespace {

thread_local MemoryRole current_role = MemoryRole::other;

std::string size_text(std::size_t bytes) {
  constexpr double mib = 1024.0 * 1024.0;
  const double size = static_cast<double>(bytes) / mib;
  return size < 1024 ? fmt::format("{:.2f} MiB", size) : fmt::format("{:.2f} GiB", size / 1024);
}

}  // namespace

std::string_view name_of(DeviceType type) {
  return type == DeviceType::cpu ? "cpu" : "cuda";
}

std::string_view name_of(MemoryKind kind) {
  return kind == MemoryKind::device ? "device" : "host";
}

std::string_view name_of(MemoryRole role) {
  static constexpr std::array<std::string_view, memory_roles> names{
      "other buffers", "parameters", "gradients", "optimizer",
      "activations",   "staging",    "workspace"};
  return names[static_cast<std::size_t>(role)];
}

MemoryScope::MemoryScope(MemoryRole role) : before_(std::exchange(current_role, role)) {}

MemoryScope::~MemoryScope() {
  current_role = before_;
}

std::unique_ptr<Device> Device::create(DeviceType type, const DevicePlace& place) {
  if (type == DeviceType::cpu) return make_cpu_device();
  return make_cuda_device(place);
}

bool Device::in_build(DeviceType type) {
  return type == DeviceType::cpu || cuda_slot<&make_cuda_device> != nullptr;
}

int Device::count(DeviceType type) noexcept {
  if (type == DeviceType::cpu) return 1;
  return count_cuda_devices();
}

MemoryUse Device::memory_use(MemoryKind kind) const {
  const std::lock_guard lock(use_mutex_);
  return use_[static_cast<std::size_t>(kind)];
}

void Device::note_allocated(std::size_t bytes, MemoryKind kind, MemoryRole role) {
  const std::lock_guard lock(use_mutex_);
  MemoryUse& use = use_[static_cast<std::size_t>(kind)];
  use.current_bytes += bytes;
  use.by_role[static_cast<std::size_t>(role)] += bytes;
  use.peak_bytes = std::max(use.peak_bytes, use.current_bytes);
  ++use.allocations;
}

void Device::note_released(std::size_t bytes, MemoryKind kind, MemoryRole role) noexcept {
  const std::lock_guard lock(use_mutex_);
  MemoryUse& use = use_[static_cast<std::size_t>(kind)];
  use.current_bytes -= bytes;
  use.by_role[static_cast<std::size_t>(role)] -= bytes;
}

void Device::out_of_memory(std::size_t bytes, MemoryKind kind, std::string_view place,
                           std::size_t free, std::size_t total) const {
  MemoryUse use = memory_use(kind);
  if (type() == DeviceType::cpu) {  // both kinds are host memory
    const MemoryKind other = kind == MemoryKind::host ? MemoryKind::device : MemoryKind::host;
    const MemoryUse more = memory_use(other);
    for (std::size_t i = 0; i < memory_roles; ++i)
      use.by_role[i] += more.by_role[i];
  }
  std::string held;
  for (std::size_t i = 0; i < memory_roles; ++i) {
    if (use.by_role[i] == 0) continue;
    held += fmt::format("{}{} {}", held.empty() ? "" : ", ", name_of(static_cast<MemoryRole>(i)),
                        size_text(use.by_role[i]));
  }
  const std::size_t same = use.by_role[static_cast<std::size_t>(current_role)];
  const std::string left =
      total == 0 ? "" : fmt::format(", which has {} of {} free", size_text(free), size_text(total));
  throw OutOfMemory(
      fmt::format(
          "out of memory: {} bytes ({}) of {} memory requested by {} on {}{}; this rank holds {}",
          bytes, size_text(bytes), name_of(kind), name_of(current_role), place, left,
          held.empty() ? "nothing" : held),
      current_role, same + bytes, same + free);
}

Buffer::Buffer(Device& device, std::size_t bytes, MemoryKind kind)
    : device_(&device), bytes_(bytes), kind_(kind), role_(current_role) {
  if (bytes == 0) return;
  data_ = device.allocate(bytes, kind);
  device.note_allocated(bytes, kind, role_);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  device_->release(data_, bytes_, kind_);
  device_->note_released(bytes_, kind_, role_);
}

Tensor Buffer::view(DType dtype, const Shape& shape) const {
  const Tensor tensor{data_, dtype, shape};
  TRIREME_EXPECTS(tensor.bytes() <= bytes_, "a {} tensor {} needs {} bytes, the buffer has {}",
                  name_of(dtype), shape.to_string(), tensor.bytes(), bytes_);
  return tensor;
}

}  // namespace trireme
