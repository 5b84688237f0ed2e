// SPDX-License-Identifier: Apache-2.0
// One rank's work in the traced steps, as plain values on the clock that all ranks share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class SpanKind : std::uint8_t {
  step,
  pass,   // forward, backward, weight gradient, reduce, optimizer
  layer,  // of a pass
  wait,   // the compute stream stands still for another stream
  collective,
  send,
  receive,
  copy,
  activity,  // of the thread that trains
  read       // of a thread of the loader
};
inline constexpr std::size_t span_kinds = 10;

// Its name in a trace: "pass", "collective".
[[nodiscard]] std::string_view name_of(SpanKind kind);
// The category of chrome://tracing, by which a trace is filtered: "compute", "communication".
[[nodiscard]] std::string_view category_of(SpanKind kind);
[[nodiscard]] constexpr bool is_message(SpanKind kind) {
  return kind == SpanKind::collective || kind == SpanKind::send || kind == SpanKind::receive;
}

enum class TrackKind : std::uint8_t { compute, communication, copy, host, loader };

struct TraceTrack {
  TrackKind kind = TrackKind::compute;
  std::string name;  // "compute stream"
};

// Groups with one name share no rank, so the first member's rank in the job identifies them.
struct TraceGroup {
  std::string name;  // "data"
  int first = 0;     // rank in the job of its first member
  int rank = 0;      // of this rank in it
  int size = 1;
};

struct RankSpan {
  SpanKind kind = SpanKind::step;
  int track = 0;  // index in RankTrace::tracks
  std::string name;
  std::int64_t begin = 0, end = 0;  // ns since the trace's origin
  std::int64_t enqueued = 0;        // by the host; of streams
  std::int64_t step = -1;           // from 1; -1: of none
  int chunk = -1, micro_batch = -1;
  // of messages
  int group = -1;  // index in RankTrace::groups
  std::string_view verb{};
  int peer = -1;             // rank in the job: a message's other end
  int root = -1;             // rank in the job: the source of a broadcast
  std::int64_t number = -1;  // of the group's collectives, of the messages of a pair; the same on
                             // all ranks
  std::int64_t bytes = 0;
};

struct TraceCounter {
  std::string_view name;
  std::int64_t at = 0;  // ns since the trace's origin
  std::int64_t value = 0;
};

// How a rank's clock was brought onto rank 0's.
struct TraceClockFacts {
  double offset_us = 0;  // ahead of rank 0's, before the first step
  double error_us = 0;   // by which its times may be wrong
  double drift_ppm = 0;
  bool jumped = false;  // it was set within the trace
};

struct RankTrace {
  int rank = 0;
  std::string host;
  std::vector<TraceTrack> tracks;
  std::vector<TraceGroup> groups;
  std::vector<RankSpan> spans;
  std::vector<TraceCounter> counters;
  TraceClockFacts clock;
  std::int64_t lost = 0;  // spans for which there was no place
};

// Facts that are equal for all ranks of a trace.
struct TraceFacts {
  std::int64_t first_step = 0, last_step = 0;
  int ranks = 1, data = 1, tensor = 1, pipeline = 1;
  std::string device;                     // "cpu", "cuda"
  std::int64_t origin_unix_ns = 0;        // where times count from
  std::vector<TraceClockFacts> clocks{};  // by rank
};

struct SpanTimes {
  std::int64_t begin = 0, end = 0;
};
struct TracePiece {
  std::int64_t begin = 0, end = 0;
  std::size_t span = 0;  // index of the innermost span there
};
// Cuts the time of one track, whose spans nest, into pieces of one innermost span each, in order.
// Times in no span are left out.
[[nodiscard]] std::vector<TracePiece> innermost_pieces(const std::vector<SpanTimes>& spans);

}  // namespace trireme
