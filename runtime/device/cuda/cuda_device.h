// SPDX-License-Identifier: Apache-2.0
// One GPU. Memory is plain cudaMalloc and cudaHostAlloc, never managed.
#pragma once

#include <algorithm>
#include <string>

#include "runtime/device/cuda/cuda_stream.h"

namespace trireme {

// Oldest supported compute capability: bf16 tensor cores begin at 8.0.
inline constexpr int oldest_capability = 80;

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DevicePlace& place);
  // A described GPU for Execution::host; makes no CUDA calls.
  CudaDevice(int capability, int multiprocessors);
  // Casts to CudaDevice; another back end's device is a contract error.
  [[nodiscard]] static CudaDevice& of(Device& device);

  [[nodiscard]] DeviceType type() const override { return DeviceType::cuda; }
  [[nodiscard]] Execution execution() const override {
    return described_ ? Execution::host : Execution::run;
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(StreamKind kind) override;
  [[nodiscard]] std::unique_ptr<Event> make_event(EventKind kind) override;
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override;
  void fill_zero(Stream& stream, void* to, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& stream,
                                               const std::function<void()>& work) override;
  [[nodiscard]] bool has_native_bf16() const override { return true; }
  [[nodiscard]] std::optional<DeviceMemory> memory() const override;

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] std::string name() const;  // "NVIDIA H200, 132 multiprocessors"
  [[nodiscard]] int capability() const { return capability_; }  // 90 for 9.0

 protected:
  [[nodiscard]] std::byte* allocate(std::size_t bytes, MemoryKind kind) override;
  void release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept override;

 private:
  int index_ = 0;
  int multiprocessors_ = 0;
  int capability_ = 0;
  bool described_ = false;
};

// "13.0" from 13000, the runtime's version number.
[[nodiscard]] std::string cuda_version_text(int version);

// GpuFacts::id: of a part of a GPU (MIG) its own.
[[nodiscard]] std::string gpu_id(int index);

// The number of GPUs that this process sees. Raises ExitCode::config, with what is missing and what
// to do, if there is no driver, one too old for the runtime, or no GPU.
[[nodiscard]] int cuda_device_count();

}  // namespace trireme
