// SPDX-License-Identifier: Apache-2.0
#include "models/layers/max_pooling.h"

namespace trireme {

MaxPooling::MaxPooling(Blueprint& blueprint, const Shape& input, std::int64_t window)
    : options_{.window = window, .stride = window, .padding = 0},
      output_(ops::max_pool_output_shape(input, options_)),
      windows_(blueprint, input, output_, {.window = window, .stride = window, .whole = true},
               blueprint.compute(), /*keep=*/false),
      index_(blueprint.keep(output_, DType::u8)) {
  if (windows_.cut()) of_index_.emplace(windows_.beside_y(blueprint, DType::u8));
}

void MaxPooling::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const Slabs& slabs = windows_.y();
  windows_.each_y(context, y, x, true,
                  [&](const Tensor& to, const Tensor& from, auto, std::size_t i) {
                    const Tensor index = slabs.of(context(index_), slabs.local()[i]);
                    ops::max_pool_forward(context.stream, to, index, from, options_);
                  });
}

void MaxPooling::backward(const Context& context, const Tensor& dx, const Tensor& dy) const {
  const Tensor index = context(index_);
  if (of_index_) {
    of_index_->start(context, index);
    of_index_->finish(context);
  }
  windows_.each_x(context, dx, dy, [&](const Tensor& to, const Tensor& above, auto, std::size_t i) {
    const Tensor of_above = of_index_ ? of_index_->box(context, index, i) : index;
    ops::max_pool_backward(context.stream, to, above, of_above, options_);
  });
}

}  // namespace trireme
