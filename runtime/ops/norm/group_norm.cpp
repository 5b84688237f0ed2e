// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/group_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(group_norm_forward);
TRIREME_KERNEL(group_norm_backward);

namespace {

void check_operands(const Operands& check, std::string_view op, const Tensor& x,
                    const BatchNormChannels& by, const GroupNormOptions& options) {
  check.compute_dtype("x", x);
  TRIREME_EXPECTS(x.shape.rank() >= 3 && x.count() > 0,
                  "{}: x has shape {}, expected samples, positions and channels", op,
                  x.shape.to_string());
  const std::int64_t channels = x.shape.back();
  TRIREME_EXPECTS(options.groups >= 1 && channels % options.groups == 0,
                  "{}: {} channels in {} groups", op, channels, options.groups);
  check.is("gamma", by.gamma, DType::f32, Shape{channels});
  check.is("beta", by.beta, DType::f32, Shape{channels});
  check.is("mean", by.mean, DType::f32, Shape{x.shape[0], channels});
  check.is("variance", by.variance, DType::f32, Shape{x.shape[0], channels});
}

}  // namespace

void group_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                        const BatchNormChannels& channels, const GroupNormOptions& options) {
  const Operands check("group_norm_forward");
  check_operands(check, "group_norm_forward", x, channels, options);
  check.is("y", y, x.dtype, x.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.disjoint("mean", channels.mean, "variance", channels.variance);
  const BatchNormChannels& by = channels;
  TRIREME_DISPATCH(stream, group_norm_forward,
                   reads(x, x, by.gamma, by.beta, by.mean, by.variance)
                       .writes(by.mean, by.variance, y)
                       .kernels(4),
                   y, x, channels, options);
}

void group_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const GroupNormOptions& options) {
  const Operands check("group_norm_backward");
  check_operands(check, "group_norm_backward", x, channels, options);
  check.is("dy", dy, x.dtype, x.shape);
  check.is("dx", dx, x.dtype, x.shape);
  check.is("dgamma", dgamma, DType::f32, channels.gamma.shape);
  check.is("dbeta", dbeta, DType::f32, channels.gamma.shape);
  check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  check.disjoint("dx", dx, "x", x);
  check.same_or_disjoint("dx", dx, "dy", dy);
  const BatchNormChannels& by = channels;
  TRIREME_DISPATCH(
      stream, group_norm_backward,
      reads(dy, x, dy, x, by.mean, by.gamma, by.variance, by.mean)
          .reads(by.variance)
          .reads_if(options.relu, by.gamma, by.beta, by.variance, by.gamma, by.beta, by.variance)
          .updates(dgamma, dbeta)
          .writes(dx)
          .kernels(5),
      dx, dgamma, dbeta, dy, x, channels, options);
}

}  // namespace trireme::ops
