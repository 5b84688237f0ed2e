// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/step_watch.h"

#include <fmt/format.h>

#include <mutex>

#include "runtime/comm/comm_label.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {
namespace {

std::mutex mutex;
std::optional<Activity> activity;

void set(std::optional<Activity> now) noexcept {
  const std::lock_guard lock(mutex);
  activity = now;
}

}  // namespace

std::string Activity::to_string() const {
  std::string text = step >= 0 ? fmt::format("step {}: {}", step, what) : std::string(what);
  if (chunk >= 0) text += fmt::format(" of chunk {}, micro-batch {}", chunk, micro_batch);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - since;
  return text + fmt::format(", for {:.1f} s", spent.count());
}

StepWatch::StepWatch() {
  set(Activity{.what = "starting to train", .since = std::chrono::steady_clock::now()});
}

StepWatch::~StepWatch() {
  set({});
}

void set_activity(std::string_view what, int chunk, int micro_batch) noexcept {
  HostTrace::set_activity(what, chunk, micro_batch);
  if (TraceLog* const trace = TraceLog::current()) trace->set_activity(what, chunk, micro_batch);
  const Activity now{what, chunk, micro_batch, current_comm_label().step,
                     std::chrono::steady_clock::now()};
  const std::lock_guard lock(mutex);
  if (activity) activity = now;
}

std::optional<Activity> current_activity() noexcept {
  const std::lock_guard lock(mutex);
  return activity;
}

}  // namespace trireme
