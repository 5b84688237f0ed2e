// SPDX-License-Identifier: Apache-2.0
// One micro-batch on the device, from the data module to the models. Views only; the source of the
// batch defines how long they stay valid.
#pragma once

#include "runtime/base/shape.h"
#include "runtime/device/device.h"

namespace trireme {

// A class of this value, or a NaN among values, adds nothing to the loss, the target count or the
// gradient. The loss is the mean over the other targets of the global batch.
inline constexpr std::int32_t ignored_target = -1;

struct Batch {
  Tensor inputs;  // tokens (B, T) i32, or images (B, H, W, C) u8 or f32
  // Next tokens (B, T), labels (B), or classes of pixels (B, H, W) or (B, D, H, W): i32,
  // ignored_target = no target. Values (B, K): f32, NaN = no target. See TargetSpec.
  Tensor targets;
  Tensor sample_ids;  // (B) i64: index in the data set; -1 for a padding row
  Tensor epochs;  // (B) i64: the epoch each row belongs to; with sample_ids the key of its random
                  // numbers
  Tensor weights{};  // (B) f32: per-sample loss weights; absent: 1
  // (B, T) i32: for each token, where its document starts in the row; 0 if it started earlier.
  // Documents then do not attend to each other. Absent: a row is one document.
  Tensor document_starts{};
  // document_starts and document_bounds of whole sequences, where the rows are those of cut ones.
  Tensor sequence_starts{}, sequence_bounds{};
  // (N + 1) i32, beside document_starts: the same documents, with all rows as one: where each
  // begins and the last ends; those that are left over begin and end at B * T. N is the same in all
  // batches of a source; one that has more documents has the shape alone.
  Tensor document_bounds{};
  bool padded = false;  // each row is one document and padding, whose document_starts are above 0
};

// The source of micro-batches for training and evaluation.

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
