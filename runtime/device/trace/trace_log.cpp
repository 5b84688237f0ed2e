// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/trace/trace_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

constexpr int not_kept = -1;
constexpr int anchor_tries = 8;

void set_name(std::array<char, TraceLog::name_bytes>& to, std::string_view name) {
  const std::size_t length = std::min(name.size(), to.size() - 1);
  std::copy_n(name.data(), length, to.data());
  to[length] = '\0';
}

double nanoseconds_between(const Event& start, const Event& end) {
  return 1e6 * end.milliseconds_since(start);
}

}  // namespace

TraceLog::TraceLog(Device& device, Stream& compute)
    : device_(device),
      compute_(compute),
      anchors_(device.make_stream(StreamKind::compute)),
      first_anchor_(take_anchor()) {
  static_cast<void>(index_of(compute));
}

TraceLog::~TraceLog() {
  if (current() == this) detail::current_trace_log = nullptr;
}

TraceLog::Span TraceLog::make_span() {
  Span span;
  span.begin = device_.make_event(EventKind::timed);
  span.end = device_.make_event(EventKind::timed);
  return span;
}

// The fastest of several attempts.
TraceLog::Anchor TraceLog::take_anchor() {
  Anchor best;
  for (int i = 0; i < anchor_tries; ++i) {
    Anchor anchor{.event = device_.make_event(EventKind::timed)};
    const std::int64_t before = TraceClock::now();
    anchors_->record(*anchor.event);
    anchor.event->synchronize();
    const std::int64_t after = TraceClock::now();
    anchor.time = before + (after - before) / 2;
    anchor.error = (after - before + 1) / 2;
    if (best.event == nullptr || anchor.error < best.error) best = std::move(anchor);
  }
  return best;
}

void TraceLog::reserve(std::size_t more) {
  const std::size_t wanted = std::min(used_ + more, most_spans);
  while (spans_.size() < wanted)
    spans_.push_back(make_span());
}

void TraceLog::begin_step(std::int64_t step, bool keep) {
  TRIREME_EXPECTS(current() == nullptr, "a thread traces one step at a time");
  step_ = step;
  keep_ = keep;
  counted_ = 0;
  depth_ = in_group_ = 0;
  in_call_ = false;
  call_ = not_kept;
  set_activity({}, -1, -1);
  detail::current_trace_log = this;
  step_span_ = open(TraceKind::step, compute_, "step");
}

void TraceLog::end_step() {
  close(step_span_, compute_);
  detail::current_trace_log = nullptr;
}

void TraceLog::set_activity(std::string_view what, int chunk, int micro_batch) {
  activity_ = what;
  chunk_ = chunk;
  micro_batch_ = micro_batch;
}

int TraceLog::index_of(Stream& stream) {
  for (std::size_t i = 0; i < stream_count_; ++i) {
    if (streams_[i].stream == &stream) return static_cast<int>(i);
  }
  if (stream_count_ == most_streams) return not_kept;
  streams_[stream_count_] = {.stream = &stream, .kind = stream.kind()};
  return static_cast<int>(stream_count_++);
}

int TraceLog::index_of(const TraceCall& call) {
  for (std::size_t i = 0; i < group_count_; ++i) {
    if (groups_[i].group == call.group) return static_cast<int>(i);
  }
  if (group_count_ == most_groups) return not_kept;
  KnownGroup& group = groups_[group_count_];
  group = {.group = call.group, .rank = call.group_rank, .size = call.group_size};
  set_name(group.name, call.group_name);
  return static_cast<int>(group_count_++);
}

int TraceLog::open(TraceKind kind, Stream& stream, std::string_view name) {
  ++counted_;
  if (!keep_ || &stream.device() != &device_ || stream.capturing()) return not_kept;
  const int at = index_of(stream);
  if (at == not_kept || used_ == most_spans) {
    ++lost_;
    return not_kept;
  }
  if (used_ == spans_.size()) spans_.push_back(make_span());
  Span& span = spans_[used_];
  span.kind = kind;
  span.closed = false;
  span.stream = static_cast<std::int16_t>(at);
  span.group = -1;
  span.chunk = chunk_;
  span.micro_batch = micro_batch_;
  span.step = step_;
  span.enqueued = TraceClock::now();
  set_name(span.name, name);
  stream.record(*span.begin);
  return static_cast<int>(used_++);
}

void TraceLog::close(int span, Stream& stream) {
  if (span == not_kept) return;
  Span& done = spans_[static_cast<std::size_t>(span)];
  stream.record(*done.end);
  done.closed = true;
}

// The outermost range of a computation has the schedule's name, which distinguishes the two halves
// of a split backward.
void TraceLog::begin_range(const char* name) {
  const bool outermost = depth_ == 0;
  const bool named = outermost && chunk_ >= 0 && !activity_.empty();
  if (depth_ < most_nested)
    ranges_[depth_] = open(outermost ? TraceKind::pass : TraceKind::layer, compute_,
                           named ? activity_ : std::string_view(name));
  ++depth_;
}

// A range may have been opened before the step.
void TraceLog::end_range() {
  if (depth_ == 0) return;
  if (--depth_ < most_nested) close(ranges_[depth_], compute_);
}

bool TraceLog::begin_call(const TraceCall& call, Stream& stream, std::string_view label,
                          bool in_group) {
  if (std::exchange(in_call_, true)) return false;
  call_ = open(TraceKind::message, stream, label);
  if (call_ == not_kept) return true;
  Span& span = spans_[static_cast<std::size_t>(call_)];
  span.group = static_cast<std::int16_t>(index_of(call));
  span.verb = call.verb;
  span.peer = call.peer;
  span.bytes = call.bytes;
  KnownStream& known = streams_[static_cast<std::size_t>(span.stream)];
  if (known.group < 0) known.group = span.group;
  if (!in_group) return true;
  if (in_group_ == most_nested) {
    ++lost_;
    return true;
  }
  of_group_[in_group_++] = call_;
  return true;
}

void TraceLog::end_call(Stream& stream, bool in_group) {
  in_call_ = false;
  if (!in_group) close(call_, stream);
  call_ = not_kept;
}

// The calls of a group run together, at its end.
void TraceLog::end_group(Stream& stream) {
  if (&stream.device() != &device_) return;
  for (std::size_t i = 0; i < in_group_; ++i)
    close(of_group_[i], stream);
  in_group_ = 0;
}

TracedSpan TraceLog::read(const Span& span, std::int64_t begin_of_step, const Event& step,
                          double rate) const {
  const auto time_of = [&](const Event& event) {
    return begin_of_step +
           static_cast<std::int64_t>(std::llround(rate * nanoseconds_between(step, event)));
  };
  TracedSpan traced{.kind = span.kind,
                    .stream = span.stream,
                    .name = span.name.data(),
                    .enqueued = span.enqueued,
                    .begin = time_of(*span.begin),
                    .step = span.step,
                    .chunk = span.chunk,
                    .micro_batch = span.micro_batch,
                    .group = span.group,
                    .verb = span.verb,
                    .peer = span.peer,
                    .bytes = span.bytes};
  traced.end = std::max(traced.begin, time_of(*span.end));
  return traced;
}

// The device's clock is compared with the host's before and after the steps. A GPU returns times
// between two events as 32-bit floats of milliseconds, so each step is measured from the previous
// one, and its contents from its own start.
Traced TraceLog::take() {
  Traced traced{.streams = {}, .groups = {}, .spans = {}, .lost = std::exchange(lost_, 0)};
  for (std::size_t i = 0; i < used_; ++i) {
    if (spans_[i].closed) spans_[i].end->synchronize();
  }
  Anchor last = take_anchor();
  const double on_device = nanoseconds_between(*first_anchor_.event, *last.event);
  const double rate =
      on_device > 0 ? static_cast<double>(last.time - first_anchor_.time) / on_device : 1;
  traced.error = std::max(first_anchor_.error, last.error);
  const Event* step = first_anchor_.event.get();
  std::int64_t begin_of_step = first_anchor_.time;
  for (std::size_t i = 0; i < used_; ++i) {
    const Span& span = spans_[i];
    if (!span.closed) continue;
    if (span.kind == TraceKind::step) {
      begin_of_step += std::llround(rate * nanoseconds_between(*step, *span.begin));
      step = span.begin.get();
    }
    traced.spans.push_back(read(span, begin_of_step, *step, rate));
  }
  for (std::size_t i = 0; i < group_count_; ++i)
    traced.groups.push_back({groups_[i].name.data(), groups_[i].rank, groups_[i].size});
  for (std::size_t i = 0; i < stream_count_; ++i) {
    const int group = streams_[i].group;
    traced.streams.push_back(
        {streams_[i].kind,
         group < 0 ? std::string() : traced.groups[static_cast<std::size_t>(group)].name});
  }
  used_ = 0;
  first_anchor_ = std::move(last);
  return traced;
}

}  // namespace trireme
