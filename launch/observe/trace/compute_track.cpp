// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/trace/compute_track.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

bool is_of_compute_stream(const FileSpan& span) {
  return span.kind == SpanKind::step || span.kind == SpanKind::pass ||
         span.kind == SpanKind::layer || span.kind == SpanKind::wait;
}

ComputeTrack track_of(int rank, const std::vector<const FileSpan*>& spans) {
  ComputeTrack track{.rank = rank, .pieces = {}, .steps = {}};
  std::vector<SpanTimes> times;
  for (const FileSpan* const span : spans) {
    times.push_back({span->begin, span->end});
    if (span->kind == SpanKind::step) track.steps.push_back(span);
  }
  std::ranges::sort(track.steps, {}, &FileSpan::begin);
  for (const TracePiece& piece : innermost_pieces(times)) {
    const FileSpan* const span = spans[piece.span];
    if (!track.pieces.empty() && track.pieces.back().end < piece.begin)
      track.pieces.push_back({track.pieces.back().end, piece.begin, nullptr, span->step});
    track.pieces.push_back({piece.begin, piece.end, span, span->step});
  }
  return track;
}

}  // namespace

const ComputePiece* ComputeTrack::most_of(std::int64_t begin, std::int64_t end) const {
  const ComputePiece* best = nullptr;
  std::int64_t longest = 0;
  auto piece = std::ranges::upper_bound(pieces, begin, {}, &ComputePiece::end);
  for (; piece != pieces.end() && piece->begin < end; ++piece) {
    const std::int64_t common = std::min(end, piece->end) - std::max(begin, piece->begin);
    if (common <= longest) continue;
    longest = common;
    best = &*piece;
  }
  return best;
}

std::vector<ComputeTrack> compute_tracks(const TraceFile& trace) {
  std::map<int, std::vector<const FileSpan*>> by_rank;
  std::map<int, int> thread;  // of the compute stream, which has the steps
  for (const FileSpan& span : trace.spans) {
    if (span.kind == SpanKind::step) thread.try_emplace(span.rank, span.thread);
  }
  for (const FileSpan& span : trace.spans) {
    const auto of_rank = thread.find(span.rank);
    if (of_rank == thread.end() || of_rank->second != span.thread) continue;
    if (is_of_compute_stream(span) || is_message(span.kind)) by_rank[span.rank].push_back(&span);
  }
  std::vector<ComputeTrack> tracks;
  for (const auto& [rank, spans] : by_rank) {
    ComputeTrack track = track_of(rank, spans);
    if (!track.pieces.empty()) tracks.push_back(std::move(track));
  }
  return tracks;
}

Intervals Intervals::of(std::vector<SpanTimes> any) {
  std::ranges::sort(any, {}, &SpanTimes::begin);
  Intervals times;
  for (const SpanTimes& part : any) {
    if (part.end <= part.begin) continue;
    if (!times.parts.empty() && part.begin <= times.parts.back().end) {
      times.parts.back().end = std::max(times.parts.back().end, part.end);
    } else {
      times.parts.push_back(part);
    }
  }
  return times;
}

std::int64_t Intervals::length() const {
  std::int64_t sum = 0;
  for (const SpanTimes& part : parts)
    sum += part.end - part.begin;
  return sum;
}

Intervals Intervals::common_with(const Intervals& other) const {
  Intervals common;
  auto theirs = other.parts.begin();
  for (const SpanTimes& part : parts) {
    while (theirs != other.parts.end() && theirs->end <= part.begin)
      ++theirs;
    for (auto at = theirs; at != other.parts.end() && at->begin < part.end; ++at)
      common.parts.push_back({std::max(part.begin, at->begin), std::min(part.end, at->end)});
  }
  return common;
}

}  // namespace trireme
