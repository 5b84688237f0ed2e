// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/loss_totals.h"

#include "runtime/ops/elementwise.h"

namespace trireme {
namespace {

constexpr std::size_t sums_bytes = 2 * sizeof(double);

}  // namespace

LossTotals::LossTotals(Device& device)
    : device_(device),
      sums_(device, sums_bytes, MemoryKind::device),
      host_(device, sums_bytes, MemoryKind::host),
      added_(device.make_event()),
      copied_(device.make_event()) {}

void LossTotals::reset(Stream& compute) {
  compute.wait(*copied_);
  device_.fill_zero(compute, sums_.data(), sums_bytes);
}

void LossTotals::add(const Context& context) {
  const Tensor sums = sums_.view(DType::f64, Shape{2});
  ops::accumulate_sum(context.stream, sums.range(0, 1), context.losses);
  ops::accumulate_sum(context.stream, sums.range(1, 1), context.hits);
}

void LossTotals::publish(Communicator& group, Stream& compute, Stream& comm) {
  const Tensor sums = sums_.view(DType::f64, Shape{2});
  compute.record(*added_);
  comm.wait(*added_);
  group.all_reduce(comm, sums, sums, ReduceOp::sum);
  device_.copy(comm, host_.data(), sums_.data(), sums_bytes);
  comm.record(*copied_);
}

LossTotals::Values LossTotals::read() {
  copied_->synchronize();
  const auto* const values = reinterpret_cast<const double*>(host_.data());
  return {values[0], values[1]};
}

}  // namespace trireme
