// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/trust_ratios.h"

#include <algorithm>
#include <utility>

#include "runtime/ops/update/exact_sum.h"

namespace trireme {

TrustRatios::TrustRatios(Device& device, const ParamLayout& layout)
    : device_(device), params_(static_cast<std::int64_t>(layout.specs().size())) {
  const auto n = static_cast<std::size_t>(params_);
  squares_ = Buffer(device, 2 * n * sizeof(double), MemoryKind::device);
  ratios_ = Buffer(device, 2 * n * sizeof(float), MemoryKind::device);
}

void TrustRatios::count_elements(Stream& stream, const ParamLayout& layout) {
  std::vector<double> counts;
  for (const ParamSpec& spec : layout.specs())
    counts.push_back(static_cast<double>(spec.shape.count()));
  counts_ = ops::uploaded(stream, std::as_bytes(std::span(counts)));
}

void TrustRatios::measure(Stream& stream, std::vector<Run> runs, bool exact) {
  std::ranges::sort(runs, {}, [](const Run& run) { return run.param.index; });
  std::vector<ops::SquaresRun> both;
  for (const Run& run : runs) {
    both.push_back({.values = run.parameter, .total = 2 * run.param.index});
    both.push_back({.values = run.direction, .total = 2 * run.param.index + 1});
  }
  table_ = ops::SquaresTable(stream, both, 2 * params_, exact);
  if (!exact) return;
  states_ = Buffer(
      device_, static_cast<std::size_t>(2 * params_ * ops::exact_sum_words) * sizeof(std::uint64_t),
      MemoryKind::device);
}

Tensor TrustRatios::squares() const {
  return squares_.view(DType::f64, Shape{params_, 2});
}

Tensor TrustRatios::sums() const {
  return table_.exact() ? states_.view(DType::u64, Shape{2 * params_ * ops::exact_sum_words})
                        : squares().reshaped({2 * params_});
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
      counts_.data() == nullptr ? Tensor{} : counts_.view(DType::f64, Shape{params_});
  ops::trust_ratios(stream, ratios_.view(DType::f32, Shape{params_, 2}), squares(), scalars,
                    options, counts);
}

Tensor TrustRatios::ratio(ParamId id) const {
  return ratios_.view(DType::f32, Shape{2 * params_}).range(2 * id.index, 2);
}

}  // namespace trireme
