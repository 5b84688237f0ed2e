// SPDX-License-Identifier: Apache-2.0
// Skips the update of a step whose loss is not finite or a spike. Decided on the device from losses
// that every rank has, so all ranks decide alike and no host waits.
#pragma once

#include "runtime/ops/update/loss_guard.h"
#include "runtime/optim/gradient_transform.h"

namespace trireme {

struct LossGuardOptions {
  double spike_zscore = 0;        // 0 = no spike rule
  std::int64_t spike_window = 1;  // steps
};

class LossGuard final : public GradientTransform {
 public:
  LossGuard(Device& device, const LossGuardOptions& options);

  // ops::LossGuardState on the device: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;
  [[nodiscard]] const LossGuardOptions& options() const { return options_; }
  // Enqueues the verdict on the step's sums. After GradientNorm, which sets the scale.
  void apply(Stream& stream, const ParamStore& params, const GradientStep& step) override;

 private:
  LossGuardOptions options_;
  Buffer state_;
};

// The verdict in a host copy of the state.
struct LossJudgement {
  ops::LossVerdict verdict = ops::LossVerdict::accepted;
  double zscore = 0;        // of the loss against the running mean
  std::int64_t spikes = 0;  // up to and with this step
};
[[nodiscard]] LossJudgement judgement_of(const Buffer& host_state);

}  // namespace trireme
