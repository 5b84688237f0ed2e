// SPDX-License-Identifier: Apache-2.0
// A sink that writes files for another tool and is notified of the run's end.
#pragma once

#include "runtime/telemetry/metrics.h"

namespace trireme {

enum class RunEnd : std::uint8_t { done, stopped, failed };  // stopped: has a checkpoint to resume

class Exporter : public MetricsSink {
 public:
  // Everything reported is in the files, or available to readers.
  virtual void flush() = 0;
  // Called occasionally, for live readers: writes final values.
  virtual void write_out() { flush(); }
  // The last call; if it is missing, the process was killed. Completes the files.
  virtual void finish(RunEnd end) = 0;
};

}  // namespace trireme
