// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/init.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(fill_normal, fill_uniform, fill_constant, fill_sinusoid);

namespace {

void check_target(const Operands& check, const Tensor& x, std::int64_t first) {
  check.present("x", x);
  check.dtype("x", x, DType::f32);
  TRIREME_EXPECTS(first >= 0, "init: first element {} is negative", first);
}

}  // namespace

void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float stddev) {
  check_target(Operands("fill_normal"), x, first);
  TRIREME_DISPATCH(stream, fill_normal, writes(x), x, seed, parameter, first, mean, stddev);
}

void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high) {
  check_target(Operands("fill_uniform"), x, first);
  TRIREME_DISPATCH(stream, fill_uniform, writes(x), x, seed, parameter, first, low, high);
}

void fill_constant(Stream& stream, const Tensor& x, float value) {
  check_target(Operands("fill_constant"), x, 0);
  TRIREME_DISPATCH(stream, fill_constant, writes(x), x, value);
}

void fill_sinusoid(Stream& stream, const Tensor& x, std::int64_t first, std::int64_t width,
                   float amplitude) {
  check_target(Operands("fill_sinusoid"), x, first);
  TRIREME_EXPECTS(width > 0, "fill_sinusoid: waves of width {}", width);
  TRIREME_DISPATCH(stream, fill_sinusoid, writes(x), x, first, width, amplitude);
}

}  // namespace trireme::ops
