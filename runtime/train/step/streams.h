// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

// The three streams of a rank.
struct Streams {
  explicit Streams(Device& device)
      : compute(device.make_stream(StreamKind::compute)),
        comm(device.make_stream(StreamKind::comm)),
        copy(device.make_stream(StreamKind::copy)) {}

  std::unique_ptr<Stream> compute, comm, copy;
};

}  // namespace trireme
