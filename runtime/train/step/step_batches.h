// SPDX-License-Identifier: Apache-2.0
// The micro-batches of the step being enqueued: taken from the source as needed, or, for a recorded
// step, copied to fixed addresses at once.
#pragma once

#include <optional>
#include <vector>

#include "runtime/nn/batch_source.h"
#include "runtime/train/step/static_batches.h"
#include "runtime/train/step/streams.h"

namespace trireme {

class StepBatches {
 public:
  // `held`: number in use at once.
  StepBatches(Streams& streams, int held)
      : streams_(streams), batches_(static_cast<std::size_t>(held)) {}
  // From here on all `count` of a step are at fixed addresses.
  void fix(Device& device, int count) { static_.emplace(device, count); }
  [[nodiscard]] bool fixed() const { return static_.has_value(); }

  void begin_step(BatchSource& source);
  // Makes micro-batches up to this one available.
  void fetch(int micro_batch);
  // Fetches the first, which represents the others until they are fetched.
  void use_first_for_all();
  [[nodiscard]] const Batch& at(int micro_batch) const;

 private:
  Streams& streams_;
  BatchSource* source_ = nullptr;
  std::vector<Batch> batches_;  // micro-batch m is at m % size
  int fetched_ = 0;
  std::optional<StaticBatches> static_;
};

}  // namespace trireme
