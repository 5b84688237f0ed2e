// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/pooling.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(max_pool_forward);
TRIREME_KERNEL(max_pool_backward);
TRIREME_KERNEL(global_average_pool_forward);
TRIREME_KERNEL(global_average_pool_backward);

namespace {

// A position in the window is stored in one byte.
constexpr std::int64_t largest_window = 16;

void check_nhwc(const Operands& check, std::string_view name, const Tensor& tensor) {
  check.compute_dtype(name, tensor);
  check.rank(name, tensor, 4);
}

}  // namespace

Shape max_pool_output_shape(const Shape& x, const PoolingOptions& options) {
  TRIREME_EXPECTS(x.rank() == 4, "max_pool: x has shape {}, expected (N, H, W, C)", x.to_string());
  TRIREME_EXPECTS(options.window >= 1 && options.window <= largest_window && options.stride >= 1 &&
                      options.padding >= 0 && 2 * options.padding <= options.window,
                  "max_pool: window {}, stride {}, padding {}: the window must be 1 to {}, the "
                  "stride positive and the padding at most half the window",
                  options.window, options.stride, options.padding, largest_window);
  const auto extent = [&](std::int64_t size) {
    const std::int64_t span = size + 2 * options.padding - options.window;
    TRIREME_EXPECTS(span >= 0, "max_pool: x {} with padding {} is smaller than the window {}",
                    x.to_string(), options.padding, options.window);
    return span / options.stride + 1;
  };
  return Shape{x[0], extent(x[1]), extent(x[2]), x[3]};
}

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options) {
  const Operands check("max_pool_forward");
  check_nhwc(check, "x", x);
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
  check_nhwc(check, "dx", dx);
  const Shape out = max_pool_output_shape(dx.shape, options);
  check.is("dy", dy, dx.dtype, out);
  check.is("index", index, DType::u8, out);
  check.disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "index", index);
  TRIREME_DISPATCH(stream, max_pool_backward, reads(dy, index).writes(dx), dx, dy, index, options);
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  const Operands check("global_average_pool_forward");
  check_nhwc(check, "x", x);
  check.is("y", y, x.dtype, Shape{x.shape[0], x.shape[3]});
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, global_average_pool_forward, reads(x).writes(y), y, x);
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  const Operands check("global_average_pool_backward");
  check_nhwc(check, "dx", dx);
  check.is("dy", dy, dx.dtype, Shape{dx.shape[0], dx.shape[3]});
  check.disjoint("dx", dx, "dy", dy);
  TRIREME_DISPATCH(stream, global_average_pool_backward, reads(dy).writes(dx), dx, dy);
}

}  // namespace trireme::ops
