// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trace/step_tracer.h"

#include <chrono>
#include <filesystem>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/train/trace/write_trace.h"

namespace trireme {
namespace {

// Initial capacity, for a run that traces its first step; it grows as needed.
constexpr std::size_t first_spans = 2048;
// Ranks may start the first traced step slightly before rank 0's clock reading.
constexpr std::int64_t before_origin_ns = 1'000'000;

std::int64_t unix_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

StepTracer::StepTracer(Device& device, Streams& streams, const ProcessMesh& mesh,
                       TraceOptions options)
    : device_(device), streams_(streams), mesh_(mesh), options_(std::move(options)) {}

StepTracer::~StepTracer() {
  if (!before_.empty()) HostTrace::stop();
}

void StepTracer::begin_step(std::int64_t step) {
  const bool counts = step + 2 == options_.first;
  if (!counts && !traces(step)) return;
  if (!log_) log_.emplace(device_, *streams_.compute);
  if (counts) return log_->begin_step(step + 1, /*keep=*/false);
  if (before_.empty()) {
    set_activity("comparing clocks");
    before_ = read_clocks(mesh_.world());
    origin_unix_ns_ = unix_nanoseconds();
    HostTrace::start();
    profiled_.emplace("traced steps");
  }
  log_->reserve(counted_ == 0 ? first_spans : counted_ + counted_ / 4);
  log_->begin_step(step + 1, /*keep=*/true);
  HostTrace::count("device memory",
                   static_cast<std::int64_t>(device_.memory_use(MemoryKind::device).current_bytes));
}

void StepTracer::end_step(std::int64_t step) {
  if (!log_ || TraceLog::current() != &*log_) return;
  log_->end_step();
  counted_ = log_->counted();
  if (!traces(step)) return;
  if (first_done_ == 0) first_done_ = step + 1;
  last_done_ = step + 1;
  if (last_done_ < options_.last) return;
  streams_.compute->synchronize();  // a profiler that records this range has the steps' kernels
  profiled_.reset();
}

void StepTracer::write_after(std::int64_t reported) {
  if (last_done_ == options_.last && reported >= options_.last) write();
}

void StepTracer::write() {
  if (last_done_ == 0) return;
  set_activity("writing a trace");
  const Taken taken = take();
  write_trace(mesh_.world(), options_.directory, taken.trace, taken.facts);
  last_done_ = 0;
  log_.reset();
}

StepTracer::Taken StepTracer::take() {
  HostTrace::stop();
  const Traced traced = log_->take();
  const std::vector<ClockReading> after = read_clocks(mesh_.world());
  const MeshShape& shape = mesh_.shape();
  Taken taken{.trace = {},
              .facts = {.first_step = first_done_,
                        .last_step = last_done_,
                        .ranks = shape.size(),
                        .data = shape.data,
                        .tensor = shape.tensor,
                        .pipeline = shape.pipeline,
                        .device = std::string(name_of(device_.type())),
                        .origin_unix_ns = origin_unix_ns_}};
  // All ranks' devices are assumed to have the same offset to the host clock.
  const auto clock_of = [&](std::size_t rank) {
    const ClockLine line(before_[rank], after[rank]);
    return TraceClockFacts{.offset_us = 1e-3 * static_cast<double>(before_[rank].offset),
                           .error_us = 1e-3 * static_cast<double>(line.error() + traced.error),
                           .drift_ppm = line.drift_ppm(),
                           .jumped = line.jumped()};
  };
  for (std::size_t rank = 0; rank < before_.size(); ++rank)
    taken.facts.clocks.push_back(clock_of(rank));
  const auto here = static_cast<std::size_t>(mesh_.world().rank());
  taken.trace = assemble(traced, HostTrace::entries(), ClockLine(before_[here], after[here]),
                         before_[0].at - before_origin_ns, mesh_);
  taken.trace.clock = taken.facts.clocks[here];
  taken.trace.host = host_name();
  return taken;
}

}  // namespace trireme
