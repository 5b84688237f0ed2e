// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/loss_totals.h"

#include "runtime/comm/comm_label.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/loss/cross_entropy.h"
#include "runtime/ops/loss/target_rank.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme {
namespace {

using Sums = ops::LossSums;

std::size_t sums_bytes(std::int64_t rows) {
  return static_cast<std::size_t>(rows) * Sums::count * sizeof(double);
}

}  // namespace

LossTotals::LossTotals(Device& device, const ProcessMesh& mesh, std::int64_t batches,
                       std::int64_t turns, std::int64_t blocks)
    : device_(device),
      mesh_(mesh),
      order_{turns, batches, mesh.shape().context, blocks},
      rows_(batches * blocks),
      sums_(device, sums_bytes(rows_), MemoryKind::device),
      all_(device, sums_bytes(rows_ * mesh.shape().data), MemoryKind::device),
      host_(device, all_.bytes(), MemoryKind::host),
      added_(device.make_event()),
      copied_(device.make_event()) {}

void LossTotals::reset(Stream& compute) {
  device_.fill_zero(compute, sums_.data(), sums_.bytes());
}

Tensor LossTotals::sums_of(std::int64_t index) const {
  return sums_.view(DType::f64, Shape{rows_ * Sums::count}).range(index * Sums::count, Sums::count);
}

void LossTotals::add(const Context& context, std::int64_t index) {
  const Tensor sums = sums_of(index);
  ops::accumulate_sum(context.stream, sums.range(Sums::loss, 1), context.losses);
  ops::accumulate_sum(context.stream, sums.range(Sums::correct, 1), context.correct);
  ops::count_targets(context.stream, sums.range(Sums::targets, 1), context.batch.targets);
}

void LossTotals::add_ranks(Stream& stream, std::int64_t index, const Tensor& ranks) {
  ops::count_below(stream, sums_of(index).range(Sums::second, 1), ranks, 5.0F);
}

void LossTotals::add_scores(Stream& stream, std::int64_t index, const Tensor& scores) {
  const std::int64_t samples = scores.shape[1], first = scores.shape[0] == 1 ? Sums::second : 0;
  for (std::int64_t i = 0; i < scores.shape[0]; ++i)
    ops::accumulate_sum(stream, sums_of(index).range(first + i, 1),
                        scores.range(i * samples, samples));
}

void LossTotals::publish(Stream& compute, Stream& comm) {
  const Tensor all = gathered();
  const ScopedCommLabel label("losses");
  compute.record(*added_);
  comm.wait(*added_);
  const int last_stage = mesh_.shape().pipeline - 1;
  if (mesh_.here().pipeline == last_stage) {
    mesh_.data().all_gather(comm, sums_.view(DType::f64, Shape{rows_ * Sums::count}), all);
  }
  if (last_stage > 0) mesh_.pipeline().broadcast(comm, all, last_stage);
  device_.copy(comm, host_.data(), all_.data(), host_.bytes());
  comm.record(*copied_);
}

Tensor LossTotals::gathered() const {
  return all_.view(DType::f64, Shape{mesh_.shape().data * rows_, Sums::count});
}

void LossTotals::wait() {
  copied_->synchronize();
}

LossTotals::Values LossTotals::read() const {
  return read(0, mesh_.shape().sample_ranks() * order_.of_rank);
}

LossTotals::Values LossTotals::read(std::int64_t first, std::int64_t end) const {
  const auto* const sums = reinterpret_cast<const double*>(host_.data());
  Values values;
  const std::int64_t parts = order_.context * order_.blocks;
  for (std::int64_t k = first * parts; k < end * parts; ++k)
    values.add(sums + ops::row_of_sums(k, order_) * Sums::count);
  return values;
}

}  // namespace trireme
