// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/slab_sum.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

Tensor part_of(const Tensor& parts, std::int64_t i, const Shape& shape) {
  return parts.range(i * shape.count(), shape.count()).reshaped(shape);
}

}  // namespace

SlabSum::SlabSum(Blueprint& blueprint, const Shape& parameter, bool cut) {
  if (!cut || !blueprint.options().training) return;
  if (blueprint.spatial().rank_count() > 1)
    blueprint.traffic().sums.push_back(static_cast<double>(parameter.count()) * sizeof(float));
  parts_ = blueprint.scratch(Shape{blueprint.spatial().local(), parameter.count()}, DType::f32);
}

void SlabSum::begin(const Context& context) const {
  if (parts_.shape.rank() == 0) return;
  const Tensor parts = context(parts_);
  context.stream.device().fill_zero(context.stream, parts.data, parts.bytes());
}

Tensor SlabSum::part(const Context& context, ParamId parameter, std::size_t i) const {
  const Tensor gradient = context.params.gradient(parameter);
  if (parts_.shape.rank() == 0) return gradient;
  return part_of(context(parts_), static_cast<std::int64_t>(i), gradient.shape);
}

void SlabSum::start_columns(const Context& context, ParamId bias, const Slabs& slabs,
                            const Tensor& dy) const {
  begin(context);
  for (std::size_t i = 0; i < slabs.local().size(); ++i)
    ops::column_sums(context.stream, part(context, bias, i), slabs.of(dy, slabs.local()[i]));
  start(context, bias);
}

void SlabSum::start(const Context& context, ParamId parameter) const {
  if (parts_.shape.rank() == 0) return context.ready(parameter);
  const Tensor parts = context(parts_), sum = parts.range(0, parts.shape[1]);
  if (parts.shape[0] > 1) ops::sum_blocks(context.stream, sum, parts);
  if (context.tensor != nullptr) context.tensor->start_all_reduce(context.stream, sum);
}

void SlabSum::finish(const Context& context, ParamId parameter) const {
  if (parts_.shape.rank() == 0) return;
  if (context.tensor != nullptr) context.tensor->finish(context.stream);
  const Tensor gradient = context.params.gradient(parameter);
  ops::add_in_place(context.stream, gradient, part_of(context(parts_), 0, gradient.shape));
  context.ready(parameter);
}

SlabParts::SlabParts(Blueprint& blueprint, const Slabs& slabs, std::int64_t rows,
                     std::int64_t columns)
    : all_(blueprint.scratch(Shape{static_cast<std::int64_t>(slabs.all().size()), rows, columns},
                             DType::f32)),
      first_(slabs.local().data() - slabs.all().data()),
      local_(static_cast<std::int64_t>(slabs.local().size())) {
  if (local_ < all_.shape[0])
    blueprint.traffic().gathers.push_back(static_cast<double>(all_.shape.count()) * sizeof(float));
}

Tensor SlabParts::own(const Context& context, std::size_t i) const {
  return part_of(context(all_), first_ + static_cast<std::int64_t>(i),
                 {all_.shape[1], all_.shape[2]});
}

Tensor SlabParts::gather(const Context& context) const {
  const Tensor all = context(all_);
  if (local_ == all.shape[0]) return all;
  const std::int64_t each = all.shape[1] * all.shape[2];
  context.tensor->all_gather(context.stream, all.range(first_ * each, local_ * each), all);
  return all;
}

}  // namespace trireme
