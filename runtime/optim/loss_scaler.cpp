// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/loss_scaler.h"

namespace trireme {

LossScaler::LossScaler(Device& device, const ops::LossScaleOptions& options) : options_(options) {
  const MemoryScope scope(MemoryRole::optimizer);
  state_ = Buffer(device, ops::LossScaleState::count * sizeof(float), MemoryKind::device);
  const Buffer host(device, state_.bytes(), MemoryKind::host);
  auto* const values = reinterpret_cast<float*>(host.data());
  values[ops::LossScaleState::scale] = options.initial;
  values[ops::LossScaleState::good_steps] = 0.0F;
  values[ops::LossScaleState::skipped_steps] = 0.0F;
  const auto stream = device.make_stream(StreamKind::compute);
  device.copy(*stream, state_.data(), host.data(),
              state_.bytes());  // the stream's destructor waits for it
}

Tensor LossScaler::state() const {
  return state_.view(DType::f32, Shape{ops::LossScaleState::count});
}

void LossScaler::apply(Stream& stream, const ParamStore& /*params*/, const GradientStep& step) {
  ops::update_loss_scale(stream, state(), step.scalars, options_);
}

}  // namespace trireme
