// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/trust_ratios.h"

#include <algorithm>
#include <utility>

#include "runtime/ops/update/exact_sum.h"

namespace trireme {

TrustRatios::TrustRatios(Device& device, const ParamLayout& layout) : device_(device) {
  for (const ParamSpec& spec : layout.specs()) {
    first_.push_back(std::ssize(elements_));
    for (const ParamMatrix& matrix : matrices_of(spec)) {
      elements_.resize(static_cast<std::size_t>(first_.back() + matrix.tensor) + 1);
      elements_.back() += static_cast<double>(matrix.count());
    }
  }
  tensors_ = std::ssize(elements_);
  const std::size_t n = elements_.size();
  squares_ = Buffer(device, 2 * n * sizeof(double), MemoryKind::device);
  ratios_ = Buffer(device, 2 * n * sizeof(float), MemoryKind::device);
}

void TrustRatios::count_elements(Stream& stream) {
  counts_ = ops::uploaded(stream, std::as_bytes(std::span(elements_)));
}

void TrustRatios::measure(Stream& stream, std::vector<Run> runs, bool exact) {
  std::vector<ops::SquaresRun> both;
  for (const Run& run : runs) {
    both.push_back({.values = run.parameter, .total = 2 * run.tensor});
    both.push_back({.values = run.direction, .total = 2 * run.tensor + 1});
  }
  std::ranges::stable_sort(both, {}, &ops::SquaresRun::total);
  table_ = ops::SquaresTable(stream, both, 2 * tensors_, exact);
  if (!exact) return;
  states_ =
      Buffer(device_,
             static_cast<std::size_t>(2 * tensors_ * ops::exact_sum_words) * sizeof(std::uint64_t),
             MemoryKind::device);
}

Tensor TrustRatios::squares() const {
  return squares_.view(DType::f64, Shape{tensors_, 2});
}

Tensor TrustRatios::sums() const {
  return table_.exact() ? states_.view(DType::u64, Shape{2 * tensors_ * ops::exact_sum_words})
                        : squares().reshaped({2 * tensors_});
}

void TrustRatios::sum(Stream& stream) {
  if (table_.exact()) {
    ops::sum_squares_exact(stream, sums(), table_);
  } else {
    ops::sum_squares(stream, sums(), table_);
  }
}

void TrustRatios::finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options) {
  if (table_.exact()) ops::exact_sum_values(stream, squares(), sums());
  const Tensor counts =
      counts_.data() == nullptr ? Tensor{} : counts_.view(DType::f64, Shape{tensors_});
  ops::trust_ratios(stream, ratios_.view(DType::f32, Shape{tensors_, 2}), squares(), scalars,
                    options, counts);
}

Tensor TrustRatios::ratio(std::int64_t tensor) const {
  return ratios_.view(DType::f32, Shape{2 * tensors_}).range(2 * tensor, 2);
}

}  // namespace trireme
