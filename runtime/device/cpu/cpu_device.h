// SPDX-License-Identifier: Apache-2.0
// The host as a device. MemoryKind::device and ::host are the same memory, counted separately.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {

class CpuDevice final : public Device {
 public:
  [[nodiscard]] DeviceType type() const override { return DeviceType::cpu; }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(StreamKind kind) override;
  [[nodiscard]] std::unique_ptr<Event> make_event(EventKind kind) override;
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override;
  void fill_zero(Stream& stream, void* to, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& stream,
                                               const std::function<void()>& work) override;
  [[nodiscard]] bool has_native_bf16() const override;

 protected:
  // From 4 MiB on, blocks are aligned to and advised for 2 MiB pages. Guard bytes follow every
  // block and release() checks them: a kernel that wrote past the end stops the program there.
  [[nodiscard]] std::byte* allocate(std::size_t bytes, MemoryKind kind) override;
  // During unwinding queued tasks may still use the memory: cancels them and waits first.
  void release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept override;

 private:
  void quiesce() noexcept;

  std::mutex mutex_;
  std::vector<std::weak_ptr<StreamCore>> cores_;
};

}  // namespace trireme
