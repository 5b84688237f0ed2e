// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/comm/timing/stall_clock.h"

namespace trireme {

// The streams of a rank, and the first one's measured waits for messages.
struct Streams {
  // `sliced`: parameters are gathered, on a stream of its own (ProcessMesh::gather).
  explicit Streams(Device& device, bool sliced = false)
      : compute(device.make_stream(StreamKind::compute)),
        comm(device.make_stream(StreamKind::comm)),
        gather(sliced ? device.make_stream(StreamKind::comm) : nullptr),
        copy(device.make_stream(StreamKind::copy)),
        stalls(device) {}

  [[nodiscard]] Stream& gathers() const { return gather ? *gather : *comm; }

  std::unique_ptr<Stream> compute, comm, gather, copy;
  StallClock stalls;
};

}  // namespace trireme
