// SPDX-License-Identifier: Apache-2.0
// CUDA streams and events. Back-end code reaches the handle through CudaStream::of(stream).
#pragma once

#include <vector>

#include "runtime/device/cuda/cuda_check.h"
#include "runtime/device/device.h"

namespace trireme {

// Makes `device` current on this thread. Threads start on GPU 0, where CUDA would otherwise create
// a context of half a gigabyte.
void choose_device(int device);

class CudaEvent final : public Event {
 public:
  CudaEvent(EventKind kind, int device);
  ~CudaEvent() override;
  [[nodiscard]] static CudaEvent& of(Event& event);

  [[nodiscard]] bool reached() const override;
  void synchronize() override;
  [[nodiscard]] double milliseconds_since(const Event& start) const override;
  [[nodiscard]] cudaEvent_t handle() const { return handle_; }
  [[nodiscard]] bool timed() const { return timed_; }

 private:
  int device_;
  cudaEvent_t handle_ = nullptr;
  bool timed_;
};

class CudaStream final : public Stream {
 public:
  // Comm streams have the highest priority: their few blocks run first, as peers wait for them.
  // Streams never wait for the legacy default stream.
  CudaStream(Device& device, StreamKind kind);
  ~CudaStream() override;
  // Casts to CudaStream; another back end's stream is a contract error.
  [[nodiscard]] static CudaStream& of(Stream& stream);

  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  [[nodiscard]] StreamKind kind() const override { return kind_; }
  [[nodiscard]] Device& device() const override { return device_; }
  [[nodiscard]] cudaStream_t handle() const { return handle_; }
  [[nodiscard]] bool capturing() const override;
  // Whether launches run, and are not just logged (Execution). Otherwise there is no handle.
  [[nodiscard]] bool runs() const { return handle_ != nullptr; }

  // Device memory for the kernels of one op on this stream, aligned to 256 bytes; the next op
  // reuses it. Grows to the largest request, so a steady step allocates nothing; growing while a
  // graph is recorded is refused. Outgrown buffers are kept: freeing memory waits for the whole
  // device, which may wait for a peer that waits for this rank.
  [[nodiscard]] std::byte* scratch(std::size_t bytes) { return grow(scratch_, bytes); }
  // Workspace of the libraries' matmuls on this stream, as Hopper's fastest algorithms need.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  [[nodiscard]] std::byte* workspace() { return grow(workspace_, workspace_bytes); }
  // `count` counters for the arrival of one kernel's blocks (ops/common/arrivals_cuda.h): zero
  // before the kernel and after it. Kept and grown like scratch, but separate.
  [[nodiscard]] unsigned* arrivals(std::size_t count);

 private:
  // Returns the newest buffer.
  [[nodiscard]] std::byte* grow(std::vector<Buffer>& buffers, std::size_t bytes);

  Device& device_;
  StreamKind kind_;
  cudaStream_t handle_ = nullptr;
  std::vector<Buffer> scratch_, workspace_, arrivals_;
};

// a captured stream.
class CudaGraph final : public Graph {
 public:
  // Records what `work` enqueues on `stream` and on streams forked from it.
  CudaGraph(CudaStream& stream, const std::function<void()>& work);
  ~CudaGraph() override;
  void launch(Stream& stream) override;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace trireme
