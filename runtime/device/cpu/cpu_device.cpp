// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "runtime/device/backends.h"
#include "runtime/device/cpu/cpu_event.h"
#include "runtime/device/cpu/cpu_features.h"

namespace trireme {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr int guard_value = 0xA5;
// AddressSanitizer has its own red zones; guard bytes would hide the first overrun from it.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t guard_bytes = 0;
#else
constexpr std::size_t guard_bytes = 64;
#endif

bool guard_intact(const std::byte* guard) noexcept {
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (guard[i] != static_cast<std::byte>(guard_value)) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Device> make_cpu_device() {
  return std::make_unique<CpuDevice>();
}

std::unique_ptr<Stream> CpuDevice::make_stream(StreamKind kind) {
  auto stream = std::make_unique<CpuStream>(*this, kind);
  if (stream->core() != nullptr) {
    const std::lock_guard lock(mutex_);
    std::erase_if(cores_, [](const auto& core) { return core.expired(); });
    cores_.push_back(stream->core());
  }
  return stream;
}

std::unique_ptr<Event> CpuDevice::make_event(EventKind /*kind*/) {
  return std::make_unique<CpuEvent>();
}

void CpuDevice::copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}

void CpuDevice::fill_zero(Stream& stream, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  enqueue(stream, [=] { std::memset(to, 0, bytes); });
}

std::unique_ptr<Graph> CpuDevice::capture(Stream& /*stream*/,
                                          const std::function<void()>& /*work*/) {
  fail(ExitCode::config, "device.graphs: the CPU has no CUDA graphs; use off");
}

bool CpuDevice::has_native_bf16() const {
  return cpu_has_bf16();
}

std::byte* CpuDevice::allocate(std::size_t bytes, MemoryKind kind) {
  const std::size_t total = bytes + guard_bytes;
  const bool huge = total >= 2 * huge_page;
  void* data = nullptr;
  if (total < bytes || posix_memalign(&data, huge ? huge_page : alignment, total) != 0) {
    out_of_memory(bytes, kind, "the host");
  }
  // Only advice: without huge pages everything works, slightly slower.
  if (huge) static_cast<void>(madvise(data, total, MADV_HUGEPAGE));
  auto* const block = static_cast<std::byte*>(data);
#if !defined(NDEBUG)
  std::memset(block, 0xFF, bytes);  // all floats NaN: exposes reads before writes
#endif
  std::memset(block + bytes, guard_value, guard_bytes);
  return block;
}

void CpuDevice::release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept {
  if (std::uncaught_exceptions() > 0) quiesce();
  if (!guard_intact(data + bytes)) {
    std::fprintf(stderr, "%s: something wrote past the end of a %s buffer of %zu bytes\n",
                 process_label().c_str(), kind == MemoryKind::device ? "device" : "host", bytes);
    std::abort();
  }
  std::free(data);
}

void CpuDevice::quiesce() noexcept {
  if (StreamCore::on_worker())
    return;  // a failing task must not wait for its own or another stream
  const std::lock_guard lock(mutex_);
  for (const auto& weak : cores_) {
    if (const auto core = weak.lock()) core->cancel();
  }
  for (const auto& weak : cores_) {
    if (const auto core = weak.lock()) core->await_idle();
  }
}

}  // namespace trireme
