// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs of the emulated runtime.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/machine.h"
#include "tests/emulation/runtime_api.h"

namespace trireme::emulated {

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

// What a graph holds is in the order of the host's calls, which respects every dependency.
struct Graph {
  std::vector<Work> work;
  std::set<Stream*> unjoined;  // forked streams with work that the first has not waited for
  Stream* origin = nullptr;
  cudaError_t broken = cudaSuccess;
};

struct Stream {
  std::deque<Work> queue;
  std::uint64_t pushed = 0, done = 0;
  bool busy = false;  // some thread runs its work
  bool stopping = false;
  std::thread worker;
  Graph* capture = nullptr;
};

struct Event {
  bool timed = false;
  Stream* stream = nullptr;  // null: never recorded
  std::uint64_t point = 0;   // reached once the stream has done so many
  Clock::time_point time;
  Graph* capture = nullptr;  // recorded while its stream was captured
};

namespace {

// One lock for all: what it guards is never held while work runs.
std::mutex mutex;
std::condition_variable changed;
std::set<Stream*> streams;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void run_one(Stream& stream, std::unique_lock<std::mutex>& lock) {
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.busy = true;
  lock.unlock();
  work();
  lock.lock();
  stream.busy = false;
  ++stream.done;
  changed.notify_all();
}

// Returns once the stream has done `point` pieces of work; runs them unless a worker does.
void reach(Stream& stream, std::uint64_t point, std::unique_lock<std::mutex>& lock) {
  const bool own = Machine::get().streams != StreamMode::threads;
  while (stream.done < point) {
    if (own && !stream.busy && !stream.queue.empty()) {
      run_one(stream, lock);
    } else {
      changed.wait(lock);
    }
  }
}

void push(Stream& stream, Work work, std::unique_lock<std::mutex>& lock) {
  stream.queue.push_back(std::move(work));
  ++stream.pushed;
  changed.notify_all();
  if (Machine::get().streams == StreamMode::eager) reach(stream, stream.pushed, lock);
}

void serve(Stream& stream) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stream.stopping || !stream.queue.empty(); });
    if (stream.queue.empty()) return;
    run_one(stream, lock);
  }
}

void break_capture(Graph& graph, cudaError_t why) {
  if (graph.broken == cudaSuccess) graph.broken = why;
}

// A call that may not be made while any stream of this process is captured.
cudaError_t refuse_in_capture() {
  const std::lock_guard lock(mutex);
  for (Stream* const stream : streams) {
    if (stream->capture == nullptr) continue;
    break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
    return report(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(Stream* stream, std::function<void()> work) {
  std::unique_lock lock(mutex);
  Work on_device = [work = std::move(work)] {
    enter_device();
    work();
    leave_device();
  };
  if (Graph* const graph = stream->capture; graph != nullptr) {
    graph->work.push_back(std::move(on_device));
    if (stream != graph->origin) graph->unjoined.insert(stream);
    return cudaSuccess;
  }
  push(*stream, std::move(on_device), lock);
  return cudaSuccess;
}

}  // namespace trireme::emulated

using namespace trireme::emulated;

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  if (flags != cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  auto* const made = new Stream;
  const std::lock_guard lock(mutex);
  streams.insert(made);
  if (Machine::get().streams == StreamMode::threads)
    made->worker = std::thread([made] { serve(*made); });
  *stream = made;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    std::unique_lock lock(mutex);
    reach(*stream, stream->pushed, lock);
    stream->stopping = true;
    streams.erase(stream);
    changed.notify_all();
  }
  if (stream->worker.joinable()) stream->worker.join();
  // Events may still name it: a stream is small, and a test program ends soon.
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  std::unique_lock lock(mutex);
  reach(*stream, stream->pushed, lock);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Event{.timed = flags == cudaEventDefault, .stream = nullptr, .time = {}};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  // Work in flight may still set its time; like streams, events stay.
  static_cast<void>(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::unique_lock lock(mutex);
  if (stream->capture != nullptr) {
    event->capture = stream->capture;
    event->stream = stream;
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->stream = stream;
  event->point = stream->pushed + 1;
  push(
      *stream, [event] { event->time = Clock::now(); }, lock);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  std::unique_lock lock(mutex);
  if (event->capture != nullptr) {
    // The waiting stream joins the capture; a forked one that is waited for has come back.
    if (stream->capture == nullptr) {
      if (!stream->queue.empty() && Machine::get().streams == StreamMode::eager)
        return report(cudaErrorStreamCaptureIsolation);
      stream->capture = event->capture;
      event->capture->unjoined.insert(stream);
    } else {
      event->capture->unjoined.erase(event->stream);
    }
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    if (event->stream == nullptr) return cudaSuccess;
    break_capture(*stream->capture, cudaErrorStreamCaptureIsolation);
    return report(cudaErrorStreamCaptureIsolation);
  }
  if (event->stream == nullptr || event->stream == stream) return cudaSuccess;
  push(
      *stream,
      [source = event->stream, point = event->point] {
        std::unique_lock inner(mutex);
        reach(*source, point, inner);
      },
      lock);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  std::unique_lock lock(mutex);
  if (event->stream == nullptr || event->stream->done >= event->point) return cudaSuccess;
  // Whoever polls a lazy stream must see it move.
  Stream& stream = *event->stream;
  if (Machine::get().streams == StreamMode::lazy && !stream.busy && !stream.queue.empty())
    run_one(stream, lock);
  return stream.done >= event->point ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  std::unique_lock lock(mutex);
  if (event->stream != nullptr) reach(*event->stream, event->point, lock);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::lock_guard lock(mutex);
  for (const Event* const event : {start, end}) {
    if (!event->timed || event->stream == nullptr) return report(cudaErrorInvalidResourceHandle);
    if (event->stream->done < event->point) return report(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  stream->capture = new Graph;
  stream->capture->origin = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  Graph* const captured = stream->capture;
  if (captured == nullptr || captured->origin != stream) return report(cudaErrorInvalidValue);
  for (Stream* const each : streams) {
    if (each->capture == captured) each->capture = nullptr;
  }
  if (captured->broken != cudaSuccess) return report(captured->broken);
  if (!captured->unjoined.empty()) return report(cudaErrorStreamCaptureUnjoined);
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex);
  *status =
      stream->capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  auto* const copy = new Graph;
  copy->work = graph->work;
  *executable = copy;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  std::unique_lock lock(mutex);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  push(
      *stream,
      [executable] {
        for (const Work& work : executable->work)
          work();
      },
      lock);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
