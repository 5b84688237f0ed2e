// SPDX-License-Identifier: Apache-2.0
// The micro-batches of the step that is being enqueued: taken from the source as they are needed,
// or, for a step that is recorded, copied to fixed addresses at once.
#pragma once

#include <optional>
#include <vector>

#include "runtime/nn/batch_source.h"
#include "runtime/train/step/static_batches.h"
#include "runtime/train/step/streams.h"

namespace trireme {

class StepBatches {
 public:
  // `held`: how many are in use at once.
  StepBatches(Streams& streams, int held)
      : streams_(streams), batches_(static_cast<std::size_t>(held)) {}
  // From here on all `count` of a step stand at addresses that never change.
  void fix(Device& device, int count) { static_.emplace(device, count); }
  [[nodiscard]] bool fixed() const { return static_.has_value(); }

  void begin_step(BatchSource& source);
  // Micro-batches up to this one may be used.
  void fetch(int micro_batch);
  // Fetches the first, which stands for the others until they are fetched.
  void use_first_for_all();
  [[nodiscard]] const Batch& at(int micro_batch) const;

 private:
  Streams& streams_;
  BatchSource* source_ = nullptr;
  std::vector<Batch> batches_;  // micro-batch m stands at m % size
  int fetched_ = 0;
  std::optional<StaticBatches> static_;
};

}  // namespace trireme
