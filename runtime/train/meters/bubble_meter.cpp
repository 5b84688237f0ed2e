// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/bubble_meter.h"

#include <algorithm>

#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

constexpr std::int64_t values_per_chunk = 3;  // forward, backward, backward_weight

}  // namespace

BubbleMeter::BubbleMeter(const PipelineRunner& runner)
    : runner_(runner), sums_(static_cast<std::size_t>(runner.shape().chunks)) {}

void BubbleMeter::add(std::int64_t step) {
  if (step == 0) return;
  micro_batches_ += runner_.micro_batches(step);
  span_ += runner_.span_ms(step);
  for (int chunk = 0; chunk < runner_.shape().chunks; ++chunk) {
    const StageTimes times = runner_.times(step, chunk);
    StageTimes& sum = sums_[static_cast<std::size_t>(chunk)];
    sum.forward += times.forward;
    sum.backward += times.backward;
    sum.backward_weight += times.backward_weight;
  }
}

BubbleReport BubbleMeter::report(Communicator& pipeline) const {
  const ScheduleShape& shape = runner_.shape();
  const std::int64_t own = shape.chunks * values_per_chunk + 1;  // plus the span
  std::vector<double> values(static_cast<std::size_t>(shape.stages * own));
  const Tensor all{reinterpret_cast<std::byte*>(values.data()), DType::f64,
                   Shape{shape.stages * own}};
  const Tensor mine = all.range(runner_.stage() * own, own);
  double* out = mine.as<double>();
  for (const StageTimes& sum : sums_) {
    for (const double value : {sum.forward, sum.backward, sum.backward_weight})
      *out++ = value;
  }
  *out = span_;
  const HostStream stream;
  pipeline.all_gather(*stream, mine, all);

  const double per = 1.0 / static_cast<double>(std::max<std::int64_t>(micro_batches_, 1));
  Costs costs = uniform_costs(shape, 0, 0, 0);
  // The first stage starts first, but any stage may end last.
  double busy = 0, span = 0;
  const double* in = values.data();
  for (int stage = 0; stage < shape.stages; ++stage) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk, in += values_per_chunk) {
      const auto at = static_cast<std::size_t>(virtual_stage(shape, stage, chunk));
      costs.forward[at] = in[0] * per;
      costs.backward[at] = in[1] * per;
      costs.backward_weight[at] = in[2] * per;
      busy += in[0] + in[1] + in[2];
    }
    span = std::max(span, *in++);
  }
  const bool split = shape.kind == ScheduleKind::zero_bubble;
  return {.measured = 1 - busy / std::max(shape.stages * span, 1e-9),
          .predicted = simulate(shape, costs).bubble,
          .ideal = simulate(shape, uniform_costs(shape, 1, split ? 1 : 2, split ? 1 : 0)).bubble};
}

}  // namespace trireme
