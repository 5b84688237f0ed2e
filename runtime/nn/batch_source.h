// SPDX-License-Identifier: Apache-2.0
// Where the training loop and the evaluation get their micro-batches from.
#pragma once

#include "runtime/device/device.h"
#include "runtime/nn/batch.h"

namespace trireme {

// What threads beside the caller's have done to read batches, in seconds of all of them together.
struct ReadWork {
  double seconds = 0;
  double computing = 0;  // of these, on a core
  // Of the chunks that were decoded to be kept for other samples, the share that had been decoded
  // before, and the bytes that keeping all takes.
  double decoded_again = 0, chunk_bytes = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // This rank's next micro-batch, in order. It is filled on `copy`, and `compute` waits for it; it
  // stays valid until the next call, whose refilling in turn waits for the work enqueued on
  // `compute` so far. Raises ExitCode::data.
  virtual const Batch& next(Stream& copy, Stream& compute) = 0;
  // Seconds that the calling thread has been blocked in next() since the start.
  [[nodiscard]] virtual double wait_seconds() const = 0;
  // Since the start; of none where nothing is read.
  [[nodiscard]] virtual ReadWork read_work() const { return {}; }
};

}  // namespace trireme
