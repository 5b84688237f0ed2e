// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/comm/timing/stall_clock.h"

namespace trireme {

// The three streams of a rank, and the first one's measured waits for the second.
struct Streams {
  explicit Streams(Device& device)
      : compute(device.make_stream(StreamKind::compute)),
        comm(device.make_stream(StreamKind::comm)),
        copy(device.make_stream(StreamKind::copy)),
        stalls(device) {}

  std::unique_ptr<Stream> compute, comm, copy;
  StallClock stalls;
};

}  // namespace trireme
