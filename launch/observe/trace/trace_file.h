// SPDX-License-Identifier: Apache-2.0
// Reads back the traces that runs write (runtime/telemetry/trace/trace_json.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

struct FileSpan {
  SpanKind kind = SpanKind::step;
  int rank = 0, thread = 0;
  std::int32_t name = 0;            // index in TraceFile::names
  std::int64_t begin = 0, end = 0;  // ns
  std::int64_t step = -1;
  int chunk = -1, micro_batch = -1;
  // of messages
  std::int32_t group = -1;  // index in TraceFile::names
  int group_size = 1, peer = -1;
  int root = -1;  // of a broadcast
  std::int64_t number = -1, bytes = 0;
};

struct TraceFile {
  std::string path;
  std::int64_t first_step = 0, last_step = 0;
  int ranks = 1, data = 1, tensor = 1, pipeline = 1;
  std::string device;
  double clock_error_us = 0;
  std::vector<std::string> names;
  std::vector<std::string> processes;  // by rank: "rank 0 on host"
  std::vector<FileSpan> spans;

  [[nodiscard]] const std::string& name_of(std::int32_t index) const {
    return names[static_cast<std::size_t>(index)];
  }
};

// The trace file `place`, or the newest in the run directory or trace directory `place`. Raises
// ExitCode::config if there is none.
[[nodiscard]] std::string find_trace(const std::string& place);

// Raises ExitCode::config for a file that cannot be read, and ExitCode::data for one that is
// truncated, damaged, of another version or not ours. Memory: 100 bytes per span.
[[nodiscard]] TraceFile read_trace(const std::string& path);

}  // namespace trireme
