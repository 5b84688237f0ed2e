// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/pooling.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/convolution/window_axes.h"

namespace trireme::ops {

TRIREME_KERNELS(max_pool_forward, max_pool_backward, average_pool_forward, average_pool_backward,
                global_average_pool_forward, global_average_pool_backward);

namespace {

// A position in the window of max pooling is stored in one byte.
constexpr std::int64_t most_positions = 256;

WindowAxes axes_of(std::string_view op, const Shape& x, const PoolingOptions& options) {
  const WindowAxes axes(op, x, options.window, options.stride, options.padding, 1);
  for (const WindowAxis* const axis : {&axes.depth, &axes.height, &axes.width}) {
    TRIREME_EXPECTS(2 * axis->padding <= axis->window,
                    "{}: padding {} is more than half the window {}", op,
                    options.padding.to_string(), options.window.to_string());
  }
  return axes;
}

// y(N, C) and x(N, ..., C).
void check_global(const Operands& check, std::string_view y_name, const Tensor& y,
                  std::string_view x_name, const Tensor& x) {
  check.compute_dtype(x_name, x);
  TRIREME_EXPECTS(x.shape.rank() >= 3, "global_average_pool: {} has shape {}, expected (N, ..., C)",
                  x_name, x.shape.to_string());
  check.is(y_name, y, x.dtype, Shape{x.shape[0], x.shape.back()});
  check.disjoint(y_name, y, x_name, x);
}

}  // namespace

Shape max_pool_output_shape(const Shape& x, const PoolingOptions& options) {
  const WindowAxes axes = axes_of("max_pool", x, options);
  TRIREME_EXPECTS(axes.depth.window * axes.height.window * axes.width.window <= most_positions,
                  "max_pool: window {} of x {} has more than {} positions",
                  options.window.to_string(), x.to_string(), most_positions);
  return axes.output_shape(x, x.back());
}

Shape average_pool_output_shape(const Shape& x, const PoolingOptions& options) {
  return axes_of("average_pool", x, options).output_shape(x, x.back());
}

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options) {
  const Operands check("max_pool_forward");
  check.compute_dtype("x", x);
  const Shape out = max_pool_output_shape(x.shape, options);
  check.is("y", y, x.dtype, out);
  check.is("index", index, DType::u8, out);
  check.disjoint("y", y, "x", x);
  check.disjoint("index", index, "x", x);
  check.disjoint("index", index, "y", y);
  TRIREME_DISPATCH(stream, max_pool_forward, reads(x).writes(y, index), y, index, x, options);
}

void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options) {
  const Operands check("max_pool_backward");
  check.compute_dtype("dx", dx);
  const Shape out = max_pool_output_shape(dx.shape, options);
  check.is("dy", dy, dx.dtype, out);
  check.is("index", index, DType::u8, out);
  check.disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "index", index);
  TRIREME_DISPATCH(stream, max_pool_backward, reads(dy, index).writes(dx), dx, dy, index, options);
}

void average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x,
                          const PoolingOptions& options) {
  const Operands check("average_pool_forward");
  check.compute_dtype("x", x);
  check.is("y", y, x.dtype, average_pool_output_shape(x.shape, options));
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, average_pool_forward, reads(x).writes(y), y, x, options);
}

void average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy,
                           const PoolingOptions& options) {
  const Operands check("average_pool_backward");
  check.compute_dtype("dx", dx);
  check.is("dy", dy, dx.dtype, average_pool_output_shape(dx.shape, options));
  check.disjoint("dx", dx, "dy", dy);
  TRIREME_DISPATCH(stream, average_pool_backward, reads(dy).writes(dx), dx, dy, options);
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  check_global(Operands("global_average_pool_forward"), "y", y, "x", x);
  TRIREME_DISPATCH(stream, global_average_pool_forward, reads(x).writes(y), y, x);
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  check_global(Operands("global_average_pool_backward"), "dy", dy, "dx", dx);
  TRIREME_DISPATCH(stream, global_average_pool_backward, reads(dy).writes(dx), dx, dy);
}

}  // namespace trireme::ops
