// SPDX-License-Identifier: Apache-2.0
// Who looks at the tensors of a step while it runs: what replays a run to find the first that
// differs. Nobody does in training.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/device/device.h"

namespace trireme {

// In the order of a step.
enum class Seen : std::uint8_t {
  weights_before,      // f32, of a rank's slice, as the step begins
  batch,               // inputs and targets of a micro-batch
  activation,          // what a layer hands on; of the head the losses
  gradient,            // of what a layer was given
  parameter_gradient,  // of one micro-batch: where these add up as a tree, below ZeRO stage 2
  reduced_gradient,    // of all: of a rank's slice
  weights              // behind the update, of a rank's slice
};

struct Observed {
  Seen what{};
  std::int64_t step = 0;    // from 1
  int micro_batch = -1;     // of the whole global batch; -1: of all
  int layer = -1;           // of the chain; -1: of none
  std::string_view name{};  // of the layer, the parameter, "inputs" or "targets"
  bool received = false;    // as another pipeline stage sent it
  // Where the elements lie in the whole tensor: from `first` on, in rows of `width` neighbours
  // `stride` apart that begin at `base` (ops::DigestPlaces). width 0: neighbours from `base` on.
  std::int64_t base = 0, width = 0, stride = 0, first = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  [[nodiscard]] virtual bool wants(std::int64_t step) const = 0;
  // Of the steps that it wants.
  [[nodiscard]] virtual bool looks_at(Seen /*what*/) const { return true; }
  // The tensor is final for work that follows on `stream`, and may be changed there.
  virtual void see(Stream& stream, const Observed& what, const Tensor& values) = 0;
};

// What a test has go wrong in a step: null but in a test's program, which brings its own function
// (tests/launch/fixture/test_faults.cpp), for the linker to take instead.
[[nodiscard]] StepObserver* planted_faults();

}  // namespace trireme
