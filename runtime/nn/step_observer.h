// SPDX-License-Identifier: Apache-2.0
// Observes the tensors of a step while it runs; `replay` uses it to find the first that differs.
// Training runs have no observer.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/device/device.h"

namespace trireme {

// In the order of a step.
enum class Seen : std::uint8_t {
  weights_before,      // f32, this rank's slice at the start of the step
  batch,               // inputs and targets of a micro-batch
  activation,          // output of a layer; the losses of the head
  gradient,            // gradient of a layer's input
  parameter_gradient,  // of one micro-batch: with tree sums, below ZeRO stage 2
  reduced_gradient,    // of the whole batch: this rank's slice
  weights              // after the update, this rank's slice
};

struct Observed {
  Seen what{};
  std::int64_t step = 0;    // from 1
  int micro_batch = -1;     // number in the global batch; -1: whole batch
  int layer = -1;           // number in the chain; -1: no layer
  std::string_view name{};  // of the layer, the parameter, "inputs" or "targets"
  bool received = false;    // received from another pipeline stage
  // Position in the whole tensor: elements from `first` on of rows of `width` elements that start
  // at `base`, `stride` apart (ops::DigestPlaces). width 0: contiguous from `base` on.
  std::int64_t base = 0, width = 0, stride = 0, first = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  [[nodiscard]] virtual bool wants(std::int64_t step) const = 0;
  // For the steps that wants() accepts.
  [[nodiscard]] virtual bool looks_at(Seen /*what*/) const { return true; }
  // The tensor is final for work that follows on `stream`, which may change it.
  virtual void see(Stream& stream, const Observed& what, const Tensor& values) = 0;
};

// Faults that a test injects into a step. Null except in test programs, which link their own
// definition (tests/launch/fixture/test_faults.cpp).
[[nodiscard]] StepObserver* planted_faults();

}  // namespace trireme
