// SPDX-License-Identifier: Apache-2.0
// CUDA streams and events. Back-end code reaches the handle through CudaStream::of(stream).
#pragma once

#include <vector>

#include "runtime/device/cuda/cuda_check.h"
#include "runtime/device/device.h"

namespace trireme {

// Makes `device` the current one of this thread. On another, CUDA would open a context there, of
// half a gigabyte; every thread begins on GPU 0.
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
  // Comm streams have the greatest priority: their few blocks go first, and what they carry is what
  // peers wait for. Streams never wait for the legacy default stream.
  CudaStream(Device& device, StreamKind kind);
  ~CudaStream() override;
  // The CUDA stream behind `stream`; another back end's stream is a contract error.
  [[nodiscard]] static CudaStream& of(Stream& stream);

  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  [[nodiscard]] StreamKind kind() const override { return kind_; }
  [[nodiscard]] Device& device() const override { return device_; }
  [[nodiscard]] cudaStream_t handle() const { return handle_; }
  [[nodiscard]] bool capturing() const override;
  // Whether what is launched is to run, beside being noted (Execution). Without it there is no
  // handle.
  [[nodiscard]] bool runs() const { return handle_ != nullptr; }

  // Device memory for the kernels of one op on this stream, aligned to 256 bytes; the next op's
  // call gives out the same bytes. Grows to the largest request and stays, so that a steady step
  // allocates nothing; growing while a graph is recorded is refused. What it has outgrown stays,
  // too: freeing memory waits for the whole device, which may wait for a peer that waits for this
  // rank.
  [[nodiscard]] std::byte* scratch(std::size_t bytes) { return grow(scratch_, bytes); }
  // For the libraries' products on this stream: what Hopper's fastest algorithms ask for.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  [[nodiscard]] std::byte* workspace() { return grow(workspace_, workspace_bytes); }
  // `count` counters at which the blocks of one kernel arrive (ops/common/arrivals_cuda.h): zero
  // before it, and it leaves them so. Kept and grown as scratch is, beside it.
  [[nodiscard]] unsigned* arrivals(std::size_t count);

 private:
  // The newest of the buffers.
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
