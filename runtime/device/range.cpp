// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/range.h"

#include "runtime/device/backends.h"
#include "runtime/device/trace/trace_log.h"
#include "runtime/device/work_log.h"

namespace trireme {

Range::Range(const char* name) noexcept {
  begin_cuda_range(name);
  if (WorkLog* const log = WorkLog::current()) log->begin_range(name);
  if (TraceLog* const trace = TraceLog::current()) trace->begin_range(name);
}

Range::~Range() {
  end_cuda_range();
  if (WorkLog* const log = WorkLog::current()) log->end_range();
  if (TraceLog* const trace = TraceLog::current()) trace->end_range();
}

}  // namespace trireme
