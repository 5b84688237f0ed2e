// SPDX-License-Identifier: Apache-2.0
// A trace of all ranks in the JSON that Perfetto and chrome://tracing read: a process per rank, a
// thread per stream and loader thread, flow arrows between the ends of a message and along the
// ranks of a collective, counters. Ranks format their own parts, which are put behind each other.
#pragma once

#include <string>
#include <string_view>

#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// Marks our traces; followed by a version.
inline constexpr std::string_view trace_mark = "trireme_trace";
inline constexpr int trace_version = 1;

// The file up to the ranks' parts.
[[nodiscard]] std::string perfetto_begin(const TraceFacts& facts);
// A rank's part.
[[nodiscard]] std::string perfetto_part(const RankTrace& trace);
[[nodiscard]] inline std::string_view perfetto_end() {
  return "\n]}\n";
}

// The trace of one rank in the JSON of Kineto, PyTorch's profiler, for tools that read a file per
// rank, such as Holistic Trace Analysis. They classify work by name and stream, and do not support
// nested work: the innermost spans of the compute stream become its kernels, collectives and
// messages become kernels whose names begin with nccl (on any transport, because such tools
// recognise communication so), steps become "ProfilerStep#10". The host's enqueueing of each is a
// CUDA runtime call with a nominal duration of a microsecond.
[[nodiscard]] std::string kineto_json(const RankTrace& trace, const TraceFacts& facts);

}  // namespace trireme
