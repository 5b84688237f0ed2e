// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/field_input.h"

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

FieldInput::FieldInput(Blueprint& blueprint, const Shape& shape) {
  const bool casts = blueprint.compute() != DType::f32;
  if (const Slabs slabs(blueprint.spatial(), shape); slabs.local().size() > 1) {
    own_.emplace(slabs, slabs.own_box(), shape.back());
    slabs_ = casts ? blueprint.scratch(shape, DType::f32) : blueprint.keep(shape, DType::f32);
  }
  if (casts) cast_ = blueprint.keep(shape);
}

Tensor FieldInput::forward(const Context& context, const Tensor& x) const {
  Tensor input = x;
  if (own_) {
    input = context(slabs_);
    (*own_)(context, input, x);
  }
  if (cast_.shape.rank() == 0) return input;
  ops::cast(context.stream, context(cast_), input.reshaped(cast_.shape));
  return context(cast_);
}

Tensor FieldInput::kept(const Context& context, const Tensor& x) const {
  if (cast_.shape.rank() > 0) return context(cast_);
  return own_ ? context(slabs_) : x;
}

}  // namespace trireme
