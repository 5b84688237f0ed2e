// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/loss_guard.h"

namespace trireme {

LossGuard::LossGuard(Device& device, const LossGuardOptions& options)
    : options_(options),
      state_(device, ops::LossGuardState::count * sizeof(double), MemoryKind::device) {
  const auto stream = device.make_stream(StreamKind::compute);
  device.fill_zero(*stream, state_.data(), state_.bytes());  // the stream's end waits for it
}

Tensor LossGuard::state() const {
  return state_.view(DType::f64, Shape{ops::LossGuardState::count});
}

void LossGuard::apply(Stream& stream, const ParamStore& /*params*/, const GradientStep& step) {
  ops::guard_loss(stream, step.scalars, state(), step.sums,
                  {.zscore = options_.spike_zscore,
                   .window = static_cast<double>(options_.spike_window),
                   .order = step.order});
}

LossJudgement judgement_of(const Buffer& host_state) {
  const auto* const values = reinterpret_cast<const double*>(host_state.data());
  using State = ops::LossGuardState;
  return {.verdict = static_cast<ops::LossVerdict>(static_cast<int>(values[State::verdict])),
          .zscore = values[State::zscore],
          .spikes = static_cast<std::int64_t>(values[State::spikes])};
}

}  // namespace trireme
