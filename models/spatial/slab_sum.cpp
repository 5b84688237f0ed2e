// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/slab_sum.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

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
  return block_of(context(parts_), static_cast<std::int64_t>(i), gradient.shape);
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
  ops::add_in_place(context.stream, gradient, block_of(context(parts_), 0, gradient.shape));
  context.ready(parameter);
}

}  // namespace trireme
