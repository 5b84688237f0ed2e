// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/trust_ratios.h"

#include "runtime/ops/update/exact_sum.h"

namespace trireme {

TrustRatios::TrustRatios(Device& device, const ParamLayout& layout, bool exact)
    : device_(device), params_(static_cast<std::int64_t>(layout.specs().size())), exact_(exact) {
  const auto n = static_cast<std::size_t>(params_);
  squares_ = Buffer(device, 2 * n * sizeof(double), MemoryKind::device);
  ratios_ = Buffer(device, n * sizeof(float), MemoryKind::device);
  if (!exact) return;
  states_ =
      Buffer(device, 2 * n * ops::exact_sum_words * sizeof(std::uint64_t), MemoryKind::device);
}

Tensor TrustRatios::squares() const {
  return squares_.view(DType::f64, Shape{params_, 2});
}

Tensor TrustRatios::sums() const {
  return exact_ ? states_.view(DType::u64, Shape{2 * params_ * ops::exact_sum_words}) : squares();
}

void TrustRatios::clear(Stream& stream) {
  device_.fill_zero(stream, sums().data, sums().bytes());
}

void TrustRatios::add(Stream& stream, const OwnedRun& run, const Tensor& parameter,
                      const Tensor& direction) {
  if (!run.counted_in_tensor) return;
  const std::int64_t words = exact_ ? ops::exact_sum_words : 1;
  std::int64_t place = 2 * run.param.index * words;
  for (const Tensor& values : {parameter, direction}) {
    const Tensor sum = sums().range(place, words);
    if (exact_) {
      ops::accumulate_squares_exact(stream, sum, values);
    } else {
      ops::accumulate_squares(stream, sum, values);
    }
    place += words;
  }
}

void TrustRatios::finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options) {
  if (exact_) ops::exact_sum_values(stream, squares(), sums());
  ops::trust_ratios(stream, ratios_.view(DType::f32, Shape{params_}), squares(), scalars, options);
}

Tensor TrustRatios::ratio(ParamId id) const {
  return ratios_.view(DType::f32, Shape{params_}).range(id.index, 1);
}

}  // namespace trireme
