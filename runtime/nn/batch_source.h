// SPDX-License-Identifier: Apache-2.0
// The source of micro-batches for training and evaluation.
#pragma once

#include "runtime/device/device.h"
#include "runtime/nn/batch.h"

namespace trireme {

// Work of the reader threads (not the caller's), in seconds summed over all of them.
struct ReadWork {
  double seconds = 0;
  double computing = 0;  // the part of it spent on a core
  // Of the chunks decoded and cached for other samples: the share that was decoded more than once,
  // and the bytes needed to cache all.
  double decoded_again = 0, chunk_bytes = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // This rank's next micro-batch, in order. It is filled on stream `copy`, and `compute` waits for
  // it. It stays valid until the next call; refilling waits for the work enqueued on `compute` so
  // far. Raises ExitCode::data.
  virtual const Batch& next(Stream& copy, Stream& compute) = 0;
  // Seconds that next() has blocked its caller since the start.
  [[nodiscard]] virtual double wait_seconds() const = 0;
  // Since the start; all zero if nothing is read.
  [[nodiscard]] virtual ReadWork read_work() const { return {}; }
};

}  // namespace trireme
