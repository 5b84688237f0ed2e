// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/gradient_norm.h"

#include <vector>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/update/exact_sum.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

GradientNorm::GradientNorm(Device& device, const ParamStore& params, float clip,
                           const OptimizerRanks& ranks)
    : clip_(clip), groups_(device, ranks) {
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
  counted_ = ops::SquaresTable(*stream, counted, 1, ranks.exact);
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

}  // namespace trireme
