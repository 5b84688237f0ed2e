// SPDX-License-Identifier: Apache-2.0
// The micro-batches of the step being enqueued: taken from the source as needed, or, for a recorded
// step or one whose targets are counted first, copied to fixed addresses at once.
#pragma once

#include <optional>
#include <vector>

#include "runtime/nn/batch.h"
#include "runtime/train/step/streams.h"

namespace trireme {

// The micro-batches of a step at fixed addresses.
class StaticBatches {
 public:
  StaticBatches(Device& device, int count)
      : device_(device), places_(static_cast<std::size_t>(count)) {}

  // Enqueues on `compute` the copies of the next `count` micro-batches of `source`. The first call
  // lays out the memory.
  void fill(BatchSource& source, std::int64_t count, Stream& copy, Stream& compute);
  // Whether no batch lacks a part that those of other steps have.
  [[nodiscard]] bool complete() const;
  [[nodiscard]] const Batch& at(int micro_batch) const {
    return places_[static_cast<std::size_t>(micro_batch)].batch;
  }

 private:
  struct Place {
    Buffer memory;
    Batch full{};   // with every part
    Batch batch{};  // with those of this step
  };
  void lay_out(Place& place, const Batch& like);

  Device& device_;
  std::vector<Place> places_;
};

class StepBatches {
 public:
  // `held`: number in use at once.
  StepBatches(Streams& streams, int held)
      : streams_(streams), batches_(static_cast<std::size_t>(held)) {}
  // From here on all `count` of a step are at fixed addresses.
  void fix(Device& device, int count) { static_.emplace(device, count); }
  // Whether they can be those of a recorded step.
  [[nodiscard]] bool recordable() const { return static_ && static_->complete(); }

  void begin_step(BatchSource& source, std::int64_t count);  // its micro-batches of this rank
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
