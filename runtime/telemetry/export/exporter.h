// SPDX-License-Identifier: Apache-2.0
// A sink whose files another tool reads: it learns how the run ended.
#pragma once

#include "runtime/telemetry/metrics.h"

namespace trireme {

enum class RunEnd : std::uint8_t { done, stopped, failed };  // stopped: with a checkpoint, to go on

class Exporter : public MetricsSink {
 public:
  // What was reported is in the files, or a reader's to have.
  virtual void flush() = 0;
  // Now and then, for those who read while the run goes on: what will not change any more.
  virtual void write_out() { flush(); }
  // The last call; without it the process was killed. Everything is in the files then.
  virtual void finish(RunEnd end) = 0;
};

}  // namespace trireme
