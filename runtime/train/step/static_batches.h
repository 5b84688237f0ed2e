// SPDX-License-Identifier: Apache-2.0
// The micro-batches of a step at fixed addresses, for a step recorded as one graph.
#pragma once

#include <vector>

#include "runtime/nn/batch_source.h"

namespace trireme {

class StaticBatches {
 public:
  StaticBatches(Device& device, int count)
      : device_(device), places_(static_cast<std::size_t>(count)) {}

  // Enqueues on `compute` the copies of the next micro-batches of `source`. The first call lays out
  // the memory.
  void fill(BatchSource& source, Stream& copy, Stream& compute);
  [[nodiscard]] const Batch& at(int micro_batch) const {
    return places_[static_cast<std::size_t>(micro_batch)].batch;
  }

 private:
  struct Place {
    Buffer memory;
    Batch batch;
  };
  void lay_out(Place& place, const Batch& like);

  Device& device_;
  std::vector<Place> places_;
};

}  // namespace trireme
