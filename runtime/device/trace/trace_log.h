// SPDX-License-Identifier: Apache-2.0
// Traces this rank's streams in traced steps, by pairs of timing events around the work that a
// thread enqueues: passes and layers (the Ranges of device/range.h), waits, collectives and
// messages (every call through Communicator::issue), copies. Slots and events are made beforehand;
// a traced step only records events, so it neither waits nor reorders work. Recorded work (CUDA
// graphs) is left out, because the host cannot read its events.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/trace/trace_clock.h"

namespace trireme {

enum class TraceKind : std::uint8_t {
  step,
  pass,     // an outermost Range
  layer,    // a Range within another
  wait,     // the stream waits for another one
  message,  // a collective, a send or a receive
  copy
};

// A group's call.
struct TraceCall {
  const void* group = nullptr;  // identifies the group
  std::string_view group_name;
  int group_rank = 0, group_size = 1;
  std::string_view verb;  // a literal
  int peer = -1;          // root, destination or source: a rank of the group
  std::int64_t bytes = 0;
};

// One span as finally read. Times are TraceClock's.
struct TracedSpan {
  TraceKind kind = TraceKind::step;
  int stream = 0;  // index in Traced::streams
  std::string name;
  std::int64_t enqueued = 0;  // by the host
  std::int64_t begin = 0, end = 0;
  std::int64_t step = 0;
  int chunk = -1, micro_batch = -1;
  // of messages
  int group = -1;  // index in Traced::groups
  std::string_view verb{};
  int peer = -1;
  std::int64_t bytes = 0;
};

struct Traced {
  struct Group {
    std::string name;
    int rank = 0, size = 1;
  };
  struct StreamName {
    StreamKind kind = StreamKind::compute;
    std::string group;  // of the first call on it, if it takes part in nothing else
  };
  std::vector<StreamName> streams;  // the compute stream first
  std::vector<Group> groups;
  std::vector<TracedSpan> spans;  // in enqueue order
  std::int64_t lost = 0;          // spans without a slot
  std::int64_t error = 0;         // ns, uncertainty of the device's clock against the host's
};

class TraceLog {
 public:
  // A rank keeps at most this number of spans; the rest is only counted.
  static constexpr std::size_t most_spans = std::size_t{1} << 20U;
  static constexpr std::size_t name_bytes = 64;

  // Traces `compute` and other streams of its device, which must outlive the log.
  TraceLog(Device& device, Stream& compute);
  ~TraceLog();
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;

  // This thread's log between begin_step() and end_step(), or null.
  [[nodiscard]] static TraceLog* current();

  // Makes slots for this number of additional spans in advance.
  void reserve(std::size_t more);
  // The thread's work from here on belongs to step `step`. Without `keep` it is only counted, to
  // learn the number of slots.
  void begin_step(std::int64_t step, bool keep);
  void end_step();
  [[nodiscard]] std::size_t counted() const { return counted_; }
  // Whether spans are kept or only counted.
  [[nodiscard]] bool keeps() const { return keep_; }

  void begin_range(const char* name);
  void end_range();
  void set_activity(std::string_view what, int chunk, int micro_batch);
  // Returns a number for close(); below 0: not kept.
  [[nodiscard]] int open(TraceKind kind, Stream& stream, std::string_view name);
  void close(int span, Stream& stream);
  // False within another call, as decorators make calls of their own: then skip end_call().
  [[nodiscard]] bool begin_call(const TraceCall& call, Stream& stream, std::string_view label,
                                bool in_group);
  void end_call(Stream& stream, bool in_group);
  void end_group(Stream& stream);

  // Everything kept so far; waits for it on the host. Empties the log.
  [[nodiscard]] Traced take();

 private:
  struct Span {
    std::unique_ptr<Event> begin, end;
    TraceKind kind = TraceKind::step;
    bool closed = false;
    std::int16_t stream = 0, group = -1;
    int chunk = -1, micro_batch = -1, peer = -1;
    std::int64_t step = 0, bytes = 0, enqueued = 0;
    std::string_view verb;
    std::array<char, name_bytes> name{};  // zero-terminated; longer names are cut
  };
  // A moment on both clocks.
  struct Anchor {
    std::unique_ptr<Event> event;
    std::int64_t time = 0, error = 0;
  };
  static constexpr std::size_t most_streams = 32, most_groups = 64, most_nested = 64;

  [[nodiscard]] Span make_span();
  [[nodiscard]] Anchor take_anchor();
  [[nodiscard]] int index_of(Stream& stream);
  [[nodiscard]] int index_of(const TraceCall& call);
  [[nodiscard]] TracedSpan read(const Span& span, std::int64_t begin_of_step, const Event& step,
                                double rate) const;

  Device& device_;
  Stream& compute_;
  std::unique_ptr<Stream> anchors_;  // idle, so an event on it is reached at once
  Anchor first_anchor_;
  std::deque<Span> spans_;
  std::size_t used_ = 0, counted_ = 0;
  std::int64_t lost_ = 0, step_ = 0;
  bool keep_ = false, in_call_ = false;
  int chunk_ = -1, micro_batch_ = -1, step_span_ = -1, call_ = -1;
  std::string_view activity_;
  std::array<int, most_nested> ranges_{};  // open ranges
  std::size_t depth_ = 0;
  std::array<int, most_nested> of_group_{};  // calls between group_begin and group_end
  std::size_t in_group_ = 0;
  struct KnownStream {
    const Stream* stream = nullptr;
    StreamKind kind = StreamKind::compute;
    int group = -1;
  };
  struct KnownGroup {
    const void* group = nullptr;
    std::array<char, name_bytes> name{};
    int rank = 0, size = 1;
  };
  std::array<KnownStream, most_streams> streams_{};
  std::array<KnownGroup, most_groups> groups_{};
  std::size_t stream_count_ = 0, group_count_ = 0;
};

namespace detail {
inline constinit thread_local TraceLog* current_trace_log = nullptr;
}
inline TraceLog* TraceLog::current() {
  return detail::current_trace_log;
}

// A span on `stream` during the object's life, if a step is traced.
class TraceSpan {
 public:
  TraceSpan(TraceKind kind, Stream& stream, std::string_view name)
      : log_(TraceLog::current()), stream_(stream) {
    if (log_ != nullptr) span_ = log_->open(kind, stream, name);
  }
  ~TraceSpan() {
    if (log_ != nullptr) log_->close(span_, stream_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceLog* log_;
  Stream& stream_;
  int span_ = -1;
};

}  // namespace trireme
