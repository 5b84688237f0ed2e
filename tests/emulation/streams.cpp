// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs of the emulated runtime.
#include <pthread.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/contracts.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/order/operations.h"
#include "tests/emulation/order/report.h"
#include "tests/emulation/order/sites.h"
#include "tests/emulation/runtime_api.h"
#include "tests/emulation/waits.h"

namespace trireme::emulated {

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

struct Event;

// A graph's nodes are in the order of the host's calls, which respects every dependency.
struct Graph {
  std::vector<Work> work;
  std::set<Stream*> unjoined;    // forked streams with work that the first has not waited for
  std::vector<Event*> external;  // recorded at every replay
  std::vector<Event*> edges;     // recorded as edges
  Stream* origin = nullptr;
  cudaError_t broken = cudaSuccess;
  std::thread::id owner;  // captures in thread-local mode restrict this thread only
  std::shared_ptr<order::Branches> branches = std::make_shared<order::Branches>();
};

struct Item {
  Work work;
  bool waits = false;  // for another stream's work
};

struct Stream {
  unsigned number = 0;  // in the order of their making
  int device = 0;
  std::deque<Item> queue;
  std::uint64_t pushed = 0, done = 0;
  bool busy = false;  // some thread runs its work
  bool stopping = false;
  std::thread worker;
  Graph* capture = nullptr;
  std::unique_ptr<order::Lane> lane;  // with the order check
};

struct Event {
  bool timed = false, sleeps = false;
  Stream* stream = nullptr;  // null: never recorded
  std::uint64_t point = 0;   // reached once the stream has done so many
  Clock::time_point time;
  bool captured = false;              // last recorded in a capture: cannot be queried outside
  Graph* capture = nullptr;           // that capture, until it ends
  std::shared_ptr<order::Mark> mark;  // of the last record, with the order check
};

namespace {

// One global lock, never held while work runs.
std::mutex mutex;
std::condition_variable changed;
std::set<Stream*> streams;
unsigned streams_made = 0;
thread_local cudaError_t last_error = cudaSuccess;

// The hardware queues: streams with work that has not started, in order of enqueueing. Work starts
// once it is first in its queue and its stream's previous work is done; the work behind it in the
// queue, of any stream, waits.
std::array<std::deque<Stream*>, 32> hardware;

bool uses_queues() {
  return holds(Contract::queues) && Machine::get().streams == StreamMode::threads;
}
std::deque<Stream*>& queue_of(const Stream& stream) {
  return hardware[stream.number % hardware_queues()];
}
std::string name_of(const Stream& stream) {
  std::string name = "stream " + std::to_string(stream.number);
  if (uses_queues())
    name += " in hardware queue " + std::to_string(stream.number % hardware_queues());
  return name;
}

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void await_turn(const Stream& stream, std::unique_lock<std::mutex>& lock) {
  if (!uses_queues()) return;
  std::optional<ScopedWait> waiting;
  while (queue_of(stream).front() != &stream) {
    if (!waiting)
      waiting.emplace("the next work of " + name_of(stream) + " is behind that of stream " +
                      std::to_string(queue_of(stream).front()->number));
    changed.wait(lock);
  }
}

void run_one(Stream& stream, std::unique_lock<std::mutex>& lock) {
  const Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.busy = true;
  const auto begun = [&] {
    if (!uses_queues()) return;
    queue_of(stream).pop_front();
    changed.notify_all();
  };
  if (!item.waits) begun();
  lock.unlock();
  {
    const Computing computing;
    item.work();
  }
  lock.lock();
  if (item.waits) begun();
  stream.busy = false;
  ++stream.done;
  changed.notify_all();
}

// Returns once the stream has done `point` pieces of work; runs them unless a worker does.
void reach(Stream& stream, std::uint64_t point, std::unique_lock<std::mutex>& lock,
           const char* call) {
  const bool own = Machine::get().streams != StreamMode::threads;
  std::optional<ScopedWait> waiting;
  while (stream.done < point) {
    if (own && !stream.busy && !stream.queue.empty()) {
      run_one(stream, lock);
      continue;
    }
    if (!waiting)
      waiting.emplace(std::string(call) + " waits for " + name_of(stream) + ", which has done " +
                      std::to_string(stream.done) + " of " + std::to_string(point));
    changed.wait(lock);
  }
}

void push(Stream& stream, Item item, std::unique_lock<std::mutex>& lock) {
  stream.queue.push_back(std::move(item));
  ++stream.pushed;
  if (uses_queues()) queue_of(stream).push_back(&stream);
  progress();
  changed.notify_all();
  if (Machine::get().streams == StreamMode::eager) reach(stream, stream.pushed, lock, "enqueueing");
}

void serve(Stream& stream) {
  pthread_setname_np(pthread_self(), ("stream " + std::to_string(stream.number)).c_str());
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stream.stopping || !stream.queue.empty(); });
    if (stream.queue.empty()) return;
    await_turn(stream, lock);
    run_one(stream, lock);
  }
}

void break_capture(Graph& graph, cudaError_t why) {
  if (graph.broken == cudaSuccess) graph.broken = why;
}

}  // namespace

cudaError_t refuse_in_capture() {
  const std::lock_guard lock(mutex);
  for (Stream* const stream : streams) {
    if (stream->capture == nullptr || stream->capture->owner != std::this_thread::get_id())
      continue;
    break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
    return report(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

void wait_for_device(const char* call) {
  if (!holds(Contract::implicit_waits)) return;
  std::unique_lock lock(mutex);
  std::vector<std::pair<Stream*, std::uint64_t>> points;
  for (Stream* const stream : streams) {
    if (stream->device == current_device()) points.emplace_back(stream, stream->pushed);
  }
  for (const auto& [stream, point] : points)
    reach(*stream, point, lock, call);
}

void make_library_streams(int count) {
  const std::lock_guard lock(mutex);
  streams_made += static_cast<unsigned>(count);
}

cudaError_t accepts_launch(const Stream* stream) {
  const bool other = holds(Contract::devices) && stream->device != current_device();
  return other ? report(cudaErrorInvalidResourceHandle) : cudaSuccess;
}

bool captures(const Stream* stream) {
  const std::lock_guard lock(mutex);
  return stream->capture != nullptr;
}

cudaError_t enqueue(Stream* stream, std::function<void()> work, Asked kind, const void* kernel) {
  std::unique_lock lock(mutex);
  Work on_device = [work = std::move(work)] {
    enter_device();
    work();
    leave_device();
  };
  if (Graph* const graph = stream->capture; graph != nullptr) {
    if (order::on())
      on_device = order::operation(graph->branches, stream, std::move(on_device), kernel);
    graph->work.push_back(std::move(on_device));
    if (stream != graph->origin) graph->unjoined.insert(stream);
    return cudaSuccess;
  }
  count(kind);
  if (order::on()) on_device = order::operation(*stream->lane, std::move(on_device), kernel);
  push(*stream, {std::move(on_device)}, lock);
  return cudaSuccess;
}

cudaError_t enqueue(Stream* stream, std::function<void()> work, const void* kernel) {
  return enqueue(stream, std::move(work), Asked::kernel, kernel);
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
  called("cudaStreamCreateWithPriority");
  if (flags != cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  auto* const made = new Stream;
  made->device = current_device();
  if (order::on()) made->lane = std::make_unique<order::Lane>();
  const std::lock_guard lock(mutex);
  made->number = streams_made++;
  streams.insert(made);
  if (Machine::get().streams == StreamMode::threads)
    made->worker = std::thread([made] { serve(*made); });
  *stream = made;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  called("cudaStreamDestroy");
  {
    std::unique_lock lock(mutex);
    reach(*stream, stream->pushed, lock, "cudaStreamDestroy");
    stream->stopping = true;
    streams.erase(stream);
    changed.notify_all();
  }
  if (stream->worker.joinable()) stream->worker.join();
  // Events may still refer to it. A stream is small, and a test program ends soon.
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  called("cudaStreamSynchronize");
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  spins("cudaStreamSynchronize");
  count(Asked::wait);
  std::unique_lock lock(mutex);
  reach(*stream, stream->pushed, lock, "cudaStreamSynchronize");
  if (order::on()) order::host_waited(*stream->lane, __builtin_return_address(0));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  called("cudaEventCreateWithFlags");
  *event = new Event{.timed = (flags & cudaEventDisableTiming) == 0,
                     .sleeps = (flags & cudaEventBlockingSync) != 0,
                     .stream = nullptr,
                     .time = {},
                     .mark = {}};
  if (order::on()) (*event)->mark = std::make_shared<order::Mark>();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  called("cudaEventDestroy");
  // Running work may still set its time; like streams, events are kept.
  static_cast<void>(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  called("cudaEventRecordWithFlags");
  std::unique_lock lock(mutex);
  Work take_time = [event] { event->time = Clock::now() + planted_time(); };
  const bool ordered = order::on() && order::renew_mark(event->mark, __builtin_return_address(0));
  if (Graph* const graph = stream->capture; graph != nullptr) {
    if (ordered) {
      const bool external = flags == cudaEventRecordExternal;
      take_time = order::record(graph->branches, stream, event->mark,
                                external ? std::move(take_time) : Work([] {}));
      if (!external) graph->work.push_back(take_time);
    }
    if (flags == cudaEventRecordExternal) {
      graph->work.push_back(take_time);
      graph->external.push_back(event);
      if (stream != graph->origin) graph->unjoined.insert(stream);
    } else {
      graph->edges.push_back(event);
      event->capture = graph;
      event->captured = true;
      event->stream = stream;
    }
    return cudaSuccess;
  }
  event->captured = false;
  event->stream = stream;
  event->point = stream->pushed + 1;
  if (ordered) take_time = order::record(*stream->lane, event->mark, std::move(take_time));
  push(*stream, {std::move(take_time)}, lock);
  return cudaSuccess;
}

// The waiting stream joins the event's capture; waiting for a forked one joins it back.
static cudaError_t wait_in_capture(Stream& stream, Event& event) {
  if (event.stream == nullptr) return cudaSuccess;
  if (!event.captured || event.capture == nullptr ||
      (stream.capture != nullptr && stream.capture != event.capture)) {
    if (stream.capture != nullptr) break_capture(*stream.capture, cudaErrorStreamCaptureIsolation);
    return report(event.captured ? cudaErrorCapturedEvent : cudaErrorStreamCaptureIsolation);
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    event.capture->unjoined.insert(&stream);
  } else if (event.stream != &stream) {
    event.capture->unjoined.erase(event.stream);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  called("cudaStreamWaitEvent");
  order::Site* const site =
      order::on() ? &order::site_of(order::Call::wait, __builtin_return_address(0)) : nullptr;
  const bool ordered = site != nullptr && !site->dropped;
  std::unique_lock lock(mutex);
  if (event->captured || stream->capture != nullptr) {
    const cudaError_t waited = wait_in_capture(*stream, *event);
    if (ordered && waited == cudaSuccess && stream->capture != nullptr)
      stream->capture->work.push_back(
          order::wait(stream->capture->branches, stream, event->mark, *site));
    return waited;
  }
  if (event->stream == nullptr || event->stream == stream) return cudaSuccess;
  Work wait = [source = event->stream, point = event->point, name = name_of(*stream)] {
    std::unique_lock inner(mutex);
    reach(*source, point, inner, name.c_str());
  };
  if (ordered) wait = order::wait(*stream->lane, event->mark, *site, std::move(wait));
  push(*stream, {std::move(wait), /*waits=*/true}, lock);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  called("cudaEventQuery");
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  std::unique_lock lock(mutex);
  if (event->captured) return report(cudaErrorCapturedEvent);
  if (event->stream == nullptr || event->stream->done >= event->point) return cudaSuccess;
  // Whoever polls a lazy stream must see it move.
  Stream& stream = *event->stream;
  if (Machine::get().streams == StreamMode::lazy && !stream.busy && !stream.queue.empty())
    run_one(stream, lock);
  return stream.done >= event->point ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  called("cudaEventSynchronize");
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  if (!event->sleeps) spins("cudaEventSynchronize");
  count(Asked::wait);
  std::unique_lock lock(mutex);
  if (event->captured) return report(cudaErrorCapturedEvent);
  if (event->stream != nullptr) reach(*event->stream, event->point, lock, "cudaEventSynchronize");
  if (order::on()) order::host_waited(*event->mark, __builtin_return_address(0));
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  called("cudaEventElapsedTime");
  const std::lock_guard lock(mutex);
  for (const Event* const event : {start, end}) {
    if (!event->timed || event->stream == nullptr) return report(cudaErrorInvalidResourceHandle);
    if (event->stream->done < event->point) return report(cudaErrorNotReady);
    if (order::on() && !order::host_clock().holds(event->mark->clock)) order::report_time_asked();
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard lock(mutex);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  stream->capture = new Graph;
  stream->capture->origin = stream;
  stream->capture->owner = std::this_thread::get_id();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  Graph* const captured = stream->capture;
  if (captured == nullptr || captured->origin != stream) return report(cudaErrorInvalidValue);
  for (Stream* const each : streams) {
    if (each->capture == captured) each->capture = nullptr;
  }
  for (Event* const event : captured->edges)
    event->capture = nullptr;
  if (Machine::get().fault == "no_capture")
    break_capture(*captured, cudaErrorStreamCaptureUnsupported);
  if (!captured->unjoined.empty()) break_capture(*captured, cudaErrorStreamCaptureUnjoined);
  if (const cudaError_t broken = captured->broken; broken != cudaSuccess) {
    delete captured;
    return report(broken);
  }
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
  copy->external = graph->external;
  copy->branches = graph->branches;
  *executable = copy;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  called("cudaGraphLaunch");
  std::unique_lock lock(mutex);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  count(Asked::graph);
  for (Event* const event : executable->external) {
    event->captured = false;
    event->stream = stream;
    event->point = stream->pushed + 1;
  }
  Work replay = [executable] {
    for (const Work& work : executable->work)
      work();
  };
  if (order::on())
    replay = order::Branches::launch(*stream->lane, executable->branches, std::move(replay));
  push(*stream, {std::move(replay)}, lock);
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
