// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trace/write_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme {
namespace {

TrackKind track_kind(StreamKind kind) {
  switch (kind) {
    case StreamKind::compute:
      return TrackKind::compute;
    case StreamKind::comm:
    case StreamKind::link:
      return TrackKind::communication;
    case StreamKind::copy:
      return TrackKind::copy;
  }
  return TrackKind::compute;
}

SpanKind span_kind(const TracedSpan& span) {
  switch (span.kind) {
    case TraceKind::step:
      return SpanKind::step;
    case TraceKind::pass:
      return SpanKind::pass;
    case TraceKind::layer:
      return SpanKind::layer;
    case TraceKind::wait:
      return SpanKind::wait;
    case TraceKind::copy:
      return SpanKind::copy;
    case TraceKind::message:
      break;
  }
  if (span.verb == "send") return SpanKind::send;
  return span.verb == "recv" ? SpanKind::receive : SpanKind::collective;
}

class Assembly {
 public:
  Assembly(const ClockLine& clock, std::int64_t origin, const ProcessMesh& mesh)
      : clock_(clock), origin_(origin), mesh_(mesh) {
    trace_.rank = mesh.world().rank();
  }

  void add_streams(const Traced& traced) {
    for (const Traced::StreamName& stream : traced.streams)
      trace_.tracks.push_back({track_kind(stream.kind), name_of_track(stream)});
    for (const Traced::Group& group : traced.groups) {
      const std::optional<int> first = world_rank_in(mesh_.shape(), mesh_.here(), group.name, 0);
      trace_.groups.push_back({.name = group.name,
                               .first = first.value_or(trace_.rank),
                               .rank = group.rank,
                               .size = group.size});
    }
    for (const TracedSpan& span : traced.spans)
      add(span);
    trace_.lost += traced.lost;
  }

  void add_host(const HostTrace::Entries& host) {
    std::vector<HostTraceEntry> entries = host.entries;
    std::ranges::sort(entries, {}, &HostTraceEntry::begin);
    for (const HostTraceEntry& entry : entries)
      add(entry);
    trace_.lost += static_cast<std::int64_t>(host.lost);
  }

  RankTrace take() { return std::move(trace_); }

 private:
  [[nodiscard]] std::int64_t time_of(std::int64_t own) const {
    return clock_.to_rank_0(own) - origin_;
  }

  // Pipeline streams are distinguished by their groups.
  static std::string name_of_track(const Traced::StreamName& stream) {
    switch (stream.kind) {
      case StreamKind::compute:
        return "compute stream";
      case StreamKind::copy:
        return "copy stream";
      case StreamKind::comm:
      case StreamKind::link:
        break;
    }
    if (stream.group.find('.') == std::string::npos) return "communication stream";
    return fmt::format("communication stream, {}", stream.group);
  }

  void add(const TracedSpan& from) {
    RankSpan span{.kind = span_kind(from),
                  .track = from.stream,
                  .name = from.name,
                  .begin = time_of(from.begin),
                  .end = time_of(from.end),
                  .enqueued = time_of(from.enqueued),
                  .step = from.step,
                  .chunk = from.chunk,
                  .micro_batch = from.micro_batch,
                  .group = from.group,
                  .verb = from.verb,
                  .bytes = from.bytes};
    if (span.kind == SpanKind::step) span.name = fmt::format("step {}", from.step);
    if (is_message(span.kind)) identify(from, span);
    trace_.spans.push_back(std::move(span));
  }

  // All ranks of a group issue the same calls in the same order and start tracing at the same call,
  // so a count identifies a call on each.
  void identify(const TracedSpan& from, RankSpan& span) {
    span.name = fmt::format("{} {}", from.verb, from.name.empty() ? "tensor" : from.name);
    if (span.group < 0) return;
    const bool collective = span.kind == SpanKind::collective;
    span.number = numbers_[{span.group, span.kind, collective ? -1 : from.peer}]++;
    if (from.peer < 0) return;
    const TraceGroup& group = trace_.groups[static_cast<std::size_t>(span.group)];
    const auto peer = world_rank_in(mesh_.shape(), mesh_.here(), group.name, from.peer);
    if (collective) {
      span.root = peer.value_or(-1);
    } else if (peer) {
      span.peer = *peer;
    } else {
      span.number = -1;  // its other end cannot be found
    }
  }

  void add(const HostTraceEntry& entry) {
    if (entry.kind == HostTraceKind::counter) {
      trace_.counters.push_back({entry.name, time_of(entry.begin), entry.numbers[0]});
      return;
    }
    const bool activity = entry.kind == HostTraceKind::activity;
    RankSpan span{.kind = activity ? SpanKind::activity : SpanKind::read,
                  .track = track_of(entry),
                  .name = std::string(entry.name),
                  .begin = time_of(entry.begin),
                  .end = time_of(entry.end)};
    if (activity) {
      span.chunk = static_cast<int>(entry.numbers[0]);
      span.micro_batch = static_cast<int>(entry.numbers[1]);
    } else {
      span.name =
          fmt::format("{}: batch {}, part {}", entry.name, entry.numbers[0], entry.numbers[1]);
    }
    trace_.spans.push_back(std::move(span));
  }

  int track_of(const HostTraceEntry& entry) {
    const bool trains = entry.kind == HostTraceKind::activity;
    const auto [place, is_new] =
        threads_.try_emplace({trains, entry.thread}, static_cast<int>(trace_.tracks.size()));
    if (is_new)
      trace_.tracks.push_back(
          trains ? TraceTrack{TrackKind::host, "host: what the training thread does"}
                 : TraceTrack{TrackKind::loader, fmt::format("loader thread {}", ++loaders_)});
    return place->second;
  }

  const ClockLine& clock_;
  std::int64_t origin_;
  const ProcessMesh& mesh_;
  RankTrace trace_;
  std::map<std::tuple<int, SpanKind, int>, std::int64_t> numbers_;
  std::map<std::pair<bool, int>, int> threads_;  // their tracks
  int loaders_ = 0;
};

}  // namespace

RankTrace assemble(const Traced& traced, const HostTrace::Entries& host, const ClockLine& clock,
                   std::int64_t origin, const ProcessMesh& mesh) {
  Assembly assembly(clock, origin, mesh);
  assembly.add_streams(traced);
  assembly.add_host(host);
  return assembly.take();
}

}  // namespace trireme
