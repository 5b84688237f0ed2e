// SPDX-License-Identifier: Apache-2.0
// The compute stream of one rank of a trace, from the begin of its first step to the end of its
// last: its work and its gaps.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/observe/trace/trace_file.h"

namespace trireme {

struct ComputePiece {
  std::int64_t begin = 0, end = 0;
  const FileSpan* span = nullptr;  // the innermost there; null between two steps
  std::int64_t step = 0;

  [[nodiscard]] bool busy() const {
    return span != nullptr && (span->kind == SpanKind::pass || span->kind == SpanKind::layer);
  }
  [[nodiscard]] std::int64_t length() const { return end - begin; }
};

struct ComputeTrack {
  int rank = 0;
  std::vector<ComputePiece> pieces;    // without gaps, in order
  std::vector<const FileSpan*> steps;  // in order

  [[nodiscard]] std::int64_t begin() const { return pieces.front().begin; }
  [[nodiscard]] std::int64_t end() const { return pieces.back().end; }
  // The stream's main piece in [begin, end]; null: none.
  [[nodiscard]] const ComputePiece* most_of(std::int64_t begin, std::int64_t end) const;
};

// For the ranks with steps in the trace, by rank.
[[nodiscard]] std::vector<ComputeTrack> compute_tracks(const TraceFile& trace);

// Sorted and disjoint.
struct Intervals {
  std::vector<SpanTimes> parts;

  [[nodiscard]] static Intervals of(std::vector<SpanTimes> any);  // their union
  [[nodiscard]] std::int64_t length() const;
  [[nodiscard]] Intervals common_with(const Intervals& other) const;
};

}  // namespace trireme
