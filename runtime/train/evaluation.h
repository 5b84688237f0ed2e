// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/nn/batch_source.h"
#include "runtime/nn/model.h"
#include "runtime/train/streams.h"

namespace trireme {

// How much of the validation set there is for each rank.
struct EvaluationPlan {
  std::int64_t local_batches =
      0;                     // micro-batches this rank runs; padding rows carry ignored targets
  std::int64_t targets = 0;  // real targets over all ranks
};

struct EvaluationResult {
  double loss = 0;  // mean nats per target
  double accuracy = 0;
};

// Forward passes without dropout, augmentation or label smoothing, with running statistics.
// Collective over `group`.
[[nodiscard]] EvaluationResult evaluate(Device& device, Model& model, Communicator& group,
                                        Streams& streams, BatchSource& source,
                                        const EvaluationPlan& plan);

}  // namespace trireme
