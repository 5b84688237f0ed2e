// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/dry/dry_device.h"

#include <sys/mman.h>

#include <cstdlib>

#include "runtime/device/arena.h"
#include "runtime/device/backends.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/device/work_log.h"

namespace trireme {
namespace {

// Constructors write small values into host memory; larger buffers are only laid out.
constexpr std::size_t smallest_reserved = std::size_t{64} << 10;

class DryEvent final : public Event {
 public:
  [[nodiscard]] bool reached() const override { return true; }
  void synchronize() override {}
  [[nodiscard]] double milliseconds_since(const Event& /*start*/) const override { return 0; }
};

class DryStream final : public Stream {
 public:
  DryStream(Device& device, StreamKind kind) : device_(device), kind_(kind) {}
  void record(Event& /*event*/) override {}
  void wait(Event& /*event*/) override {}
  void synchronize() override {}
  [[nodiscard]] StreamKind kind() const override { return kind_; }
  [[nodiscard]] Device& device() const override { return device_; }

 private:
  Device& device_;
  StreamKind kind_;
};

class DryDevice final : public Device {
 public:
  explicit DryDevice(DeviceType type) : type_(type) {}

  [[nodiscard]] DeviceType type() const override { return type_; }
  [[nodiscard]] Execution execution() const override { return Execution::none; }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(StreamKind kind) override {
    return std::make_unique<DryStream>(*this, kind);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event(EventKind /*kind*/) override {
    return make_dry_event();
  }
  void copy(Stream& /*stream*/, void* to, const void* from, std::size_t bytes) override {
    note_copy(to, from, bytes);
  }
  void fill_zero(Stream& /*stream*/, void* /*to*/, std::size_t bytes) override { note_fill(bytes); }
  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& /*stream*/,
                                               const std::function<void()>& /*work*/) override {
    TRIREME_EXPECTS(false, "nothing runs on a dry device, so nothing can be recorded");
    return nullptr;
  }
  [[nodiscard]] bool has_native_bf16() const override { return true; }

 protected:
  [[nodiscard]] std::byte* allocate(std::size_t bytes, MemoryKind kind) override {
    std::byte* const data = reserve_memory(bytes);
    if (data == nullptr) out_of_memory(bytes, kind, "the address space");
    return data;
  }
  void release(std::byte* data, std::size_t bytes, MemoryKind /*kind*/) noexcept override {
    release_reserved(data, bytes);
  }

 private:
  DeviceType type_;
};

}  // namespace

std::unique_ptr<Device> make_dry_device(DeviceType type) {
  return std::make_unique<DryDevice>(type);
}

std::unique_ptr<Device> make_counting_device(DeviceType type) {
  const auto make = cuda_slot<&make_counting_cuda_device>;
  return type == DeviceType::cuda && make != nullptr ? make() : make_dry_device(type);
}

std::byte* reserve_memory(std::size_t bytes) noexcept {
  if (bytes < smallest_reserved) {
    const std::size_t whole = align_up(bytes, arena_alignment);
    return static_cast<std::byte*>(std::aligned_alloc(arena_alignment, whole));
  }
  void* const data =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

void release_reserved(std::byte* data, std::size_t bytes) noexcept {
  if (bytes < smallest_reserved) {
    std::free(data);
  } else {
    munmap(data, bytes);
  }
}

std::unique_ptr<Event> make_dry_event() {
  return std::make_unique<DryEvent>();
}

void note_copy(const void* to, const void* from, std::size_t bytes) {
  WorkLog* const log = WorkLog::current();
  if (log != nullptr && bytes > 0 && to != from)
    log->note(WorkKind::copy, "copy", static_cast<double>(bytes));
}

void note_fill(std::size_t bytes) {
  WorkLog* const log = WorkLog::current();
  if (log != nullptr && bytes > 0) log->note(WorkKind::fill, "fill", static_cast<double>(bytes));
}

}  // namespace trireme
