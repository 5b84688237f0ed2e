// SPDX-License-Identifier: Apache-2.0
// Traces some steps of a run: the work of all ranks' streams and threads, on one clock, in files
// for Perfetto (all ranks) and for Kineto's tools (a file per rank).
//
// The ranks' clocks are compared before the first traced step and after the last one; then every
// rank formats and compresses its part, and rank 0 receives and writes one after another. The step
// before the first traced one is counted, so that its slots exist when it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/comm/process_mesh.h"
#include "runtime/comm/timing/clock_offset.h"
#include "runtime/device/range.h"
#include "runtime/device/trace/trace_log.h"
#include "runtime/telemetry/trace/rank_trace.h"
#include "runtime/train/step/streams.h"

namespace trireme {

struct TraceOptions {
  std::int64_t first = 0, last = 0;  // steps, counted from 1
  std::string directory;             // for the files; created on demand
};

class StepTracer {
 public:
  // All must outlive the tracer. `group`: all ranks; used on host memory, by the training thread,
  // while no other call of it is in flight.
  StepTracer(Device& device, Streams& streams, const ProcessMesh& mesh, TraceOptions options);
  ~StepTracer();
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  // Call it around the enqueueing of step `step` (from 0). Before the first traced step
  // begin_step() is collective and blocks the host.
  void begin_step(std::int64_t step);
  void end_step(std::int64_t step);
  // After steps before `reported` were read: writes the trace once all its steps are done. Then
  // collective; blocks the host. If the files cannot be written it logs that, and the run
  // continues.
  void write_after(std::int64_t reported);
  // Writes the trace so far of a run that ends early. Collective.
  void write();

  // This rank's trace and the common facts, on the shared clock; writes nothing. Collective; blocks
  // the host.
  struct Taken {
    RankTrace trace;
    TraceFacts facts;
  };
  [[nodiscard]] Taken take();

 private:
  [[nodiscard]] bool traces(std::int64_t step) const {
    return step + 1 >= options_.first && step + 1 <= options_.last;
  }

  Device& device_;
  Streams& streams_;
  const ProcessMesh& mesh_;
  TraceOptions options_;
  std::optional<TraceLog> log_;  // made in the step before the first traced one
  std::vector<ClockReading> before_;
  std::int64_t origin_unix_ns_ = 0;
  std::int64_t first_done_ = 0, last_done_ = 0;  // traced steps, from 1; 0: none
  std::size_t counted_ = 0;                      // spans of the last step
  std::optional<Range> profiled_;                // around the traced steps, for nsys and ncu
};

}  // namespace trireme
