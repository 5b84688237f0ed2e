// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_stream.h"

#include <algorithm>
#include <exception>

namespace trireme {

using detail::report_cuda;

void choose_device(int device) {
  thread_local int current = -1;
  if (current == device) return;
  TRIREME_CUDA(cudaSetDevice(device));
  current = device;
}

// Host waits spin for the lowest latency; a sleeping wait costs tens of microseconds more.
static unsigned flags_of(EventKind kind) {
  switch (kind) {
    case EventKind::order:
      return cudaEventDisableTiming;
    case EventKind::timed:
      return cudaEventDefault;
    case EventKind::awaited:
      return cudaEventDisableTiming | cudaEventBlockingSync;
  }
  return cudaEventDefault;
}

CudaEvent::CudaEvent(EventKind kind, int device)
    : device_(device), timed_(kind == EventKind::timed) {
  TRIREME_CUDA(cudaEventCreateWithFlags(&handle_, flags_of(kind)));
}

CudaEvent::~CudaEvent() {
  report_cuda(cudaSetDevice(device_), "cudaSetDevice");
  report_cuda(cudaEventDestroy(handle_), "cudaEventDestroy");
}

CudaEvent& CudaEvent::of(Event& event) {
  auto* const found = dynamic_cast<CudaEvent*>(&event);
  TRIREME_EXPECTS(found != nullptr, "a CUDA stream needs a CUDA event");
  return *found;
}

bool CudaEvent::reached() const {
  choose_device(device_);  // the watchdog's thread also calls it
  const cudaError_t state = cudaEventQuery(handle_);
  if (state == cudaErrorNotReady) return false;
  TRIREME_CUDA(state);
  return true;
}

void CudaEvent::synchronize() {
  choose_device(device_);  // loader threads also wait
  TRIREME_CUDA(cudaEventSynchronize(handle_));
}

double CudaEvent::milliseconds_since(const Event& start) const {
  const auto* const from = dynamic_cast<const CudaEvent*>(&start);
  TRIREME_EXPECTS(from != nullptr, "the start event belongs to another back end");
  float milliseconds = 0;
  TRIREME_CUDA(cudaEventElapsedTime(&milliseconds, from->handle_, handle_));
  return static_cast<double>(milliseconds);
}

CudaStream::CudaStream(Device& device, StreamKind kind) : device_(device), kind_(kind) {
  if (device.execution() != Execution::run) return;
  int least = 0, greatest = 0;
  TRIREME_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const bool messages = kind == StreamKind::comm || kind == StreamKind::link;
  const int priority = messages ? greatest : least;
  TRIREME_CUDA(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority));
}

CudaStream::~CudaStream() {
  if (!runs() || std::uncaught_exceptions() > 0) return;  // like memory: see CudaDevice::release
  report_cuda(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
  report_cuda(cudaStreamDestroy(handle_), "cudaStreamDestroy");
}

CudaStream& CudaStream::of(Stream& stream) {
  auto* const found = dynamic_cast<CudaStream*>(&stream);
  TRIREME_EXPECTS(found != nullptr, "the CUDA back end got a {} stream",
                  name_of(stream.device().type()));
  return *found;
}

// In a graph a timed event is recorded at every replay; ordering events become edges of the graph.
void CudaStream::record(Event& event) {
  if (!runs()) return;
  const CudaEvent& here = CudaEvent::of(event);
  const unsigned flags =
      here.timed() && capturing() ? cudaEventRecordExternal : cudaEventRecordDefault;
  TRIREME_CUDA(cudaEventRecordWithFlags(here.handle(), handle_, flags));
}

void CudaStream::wait(Event& event) {
  if (!runs()) return;
  TRIREME_CUDA(cudaStreamWaitEvent(handle_, CudaEvent::of(event).handle(), 0));
}

void CudaStream::synchronize() {
  if (!runs()) return;
  TRIREME_CUDA(cudaStreamSynchronize(handle_));
}

bool CudaStream::capturing() const {
  if (!runs()) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TRIREME_CUDA(cudaStreamIsCapturing(handle_, &status));
  return status != cudaStreamCaptureStatusNone;
}

unsigned* CudaStream::arrivals(std::size_t count) {
  constexpr std::size_t first_count = 1024;  // hardly any kernel makes it grow
  const std::size_t held = arrivals_.size();
  std::byte* const counters = grow(arrivals_, std::max(count, first_count) * sizeof(unsigned));
  if (arrivals_.size() > held && runs())
    TRIREME_CUDA(cudaMemsetAsync(counters, 0, arrivals_.back().bytes(), handle_));
  return reinterpret_cast<unsigned*>(counters);
}

std::byte* CudaStream::grow(std::vector<Buffer>& buffers, std::size_t bytes) {
  const std::size_t held = buffers.empty() ? 0 : buffers.back().bytes();
  if (bytes > held) {
    if (capturing()) {
      fail(ExitCode::config,
           "an operation needs {} bytes of scratch memory while a graph is recorded, but its "
           "stream has {}; run the operation once before recording",
           bytes, held);
    }
    const MemoryScope scope(MemoryRole::workspace);
    buffers.emplace_back(device_, bytes, MemoryKind::device);
  }
  return buffers.empty() ? nullptr : buffers.back().data();
}

}  // namespace trireme
