// SPDX-License-Identifier: Apache-2.0
// What happens to a step's gradients between their reduction and the update: a list of transforms.
// In training: the gradient noise scale, a program's own (EngineParts::transforms), norm and
// clipping, the dynamic loss scale (gradient_scale.h), the loss guard (train/step/loss_guard.h).
#pragma once

#include "runtime/nn/param_store.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme {

struct GradientStep {
  std::int64_t number = 0;  // from 0
  // ops::StepScalars on the device; GradientNorm sets the gradient scale, and 0 skips the update.
  Tensor scalars{};
  // Gradients are those of the mean loss over the counted targets, times loss_scale * counted /
  // targets (ops::GradientFactors).
  Tensor loss_scale{};  // (1) f32; absent: 1
  Tensor sums{};        // of the step's loss (ops::LossSums), with the counted targets; absent: all
  ops::SumsOrder order{};  // of the sums
  double targets = 1;
  int micro_batches = 1;  // of the global batch
};

class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  // Enqueues. This rank's slices of the gradients (ParamStore::for_each_owned_gradient) are those
  // of the whole batch. With device.graphs: step only values in device memory may change between
  // steps.
  virtual void apply(Stream& stream, const ParamStore& params, const GradientStep& step) = 0;
};

}  // namespace trireme
