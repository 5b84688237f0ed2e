// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/gradient_scale.h"

#include <vector>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/update/exact_sum.h"

namespace trireme {

GradientNorm::GradientNorm(Device& device, const ParamStore& params, float clip, bool exact,
                           const ModelGroups& groups)
    : clip_(clip), groups_(groups) {
  const MemoryScope scope(MemoryRole::optimizer);
  const auto stream = device.make_stream(StreamKind::compute);  // its end waits for all
  const auto zeroed = [&](std::size_t bytes) {
    Buffer buffer(device, bytes, MemoryKind::device);
    device.fill_zero(*stream, buffer.data(), bytes);
    return buffer;
  };
  norm_ = zeroed(sizeof(float));
  sum_ = zeroed(sizeof(double));
  exact_ = zeroed(ops::exact_sum_words * sizeof(std::uint64_t));
  std::vector<ops::SquaresRun> counted;
  for (const OwnedRun& run : params.layout().owned_runs()) {
    if (run.kind == ParamKind::weight && run.counted)
      counted.push_back({.values = params.gradients().owned(run)});
  }
  counted_ = ops::SquaresTable(*stream, counted, 1, exact);
}

Tensor GradientNorm::value() const {
  return norm_.view(DType::f32, Shape{1});
}

void GradientNorm::apply(Stream& stream, const ParamStore& /*params*/, const GradientStep& step) {
  const Tensor sum = sum_.view(DType::f64, Shape{1});
  const Tensor exact = exact_.view(DType::u64, Shape{ops::exact_sum_words});
  if (counted_.exact()) {
    ops::sum_squares_exact(stream, exact, counted_);
  } else {
    ops::sum_squares(stream, sum, counted_);
  }
  {
    const ScopedCommLabel label("gradient norm");
    groups_.add_up(stream, counted_.exact() ? exact : sum);
  }
  if (counted_.exact()) ops::exact_sum_values(stream, sum, exact);
  ops::clip_scale(stream, step.scalars, value(), sum, clip_,
                  {.loss_scale = step.loss_scale, .sums = step.sums, .targets = step.targets});
}

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
