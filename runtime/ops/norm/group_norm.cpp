// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/group_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(group_norm_forward, group_norm_backward);

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

// parts(S, values of each sample, C).
void check_given(const Operands& check, const NormParts& given, std::int64_t of_sample,
                 const Tensor& x) {
  if (given.parts.empty()) return;
  check.rank("parts", given.parts, 3);
  check.is("parts", given.parts, DType::f32,
           {given.parts.shape[0], of_sample * x.shape[0], x.shape.back()});
  TRIREME_EXPECTS(given.values > 0, "group_norm: parts of {} values", given.values);
}

}  // namespace

void group_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                        const BatchNormChannels& channels, const GroupNormOptions& options,
                        const NormParts& given) {
  const Operands check("group_norm_forward");
  check_operands(check, "group_norm_forward", x, channels, options);
  check.is("y", y, x.dtype, x.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.disjoint("mean", channels.mean, "variance", channels.variance);
  check_given(check, given, 3, x);
  const BatchNormChannels& by = channels;
  TRIREME_DISPATCH(stream, group_norm_forward,
                   reads(x, by.gamma, by.beta, by.mean, by.variance, given.parts)
                       .reads_if(given.parts.empty(), x)
                       .writes(by.mean, by.variance, y)
                       .kernels(given.parts.empty() ? 4 : 3),
                   y, x, channels, options, given);
}

void group_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const GroupNormOptions& options,
                         const NormParts& given) {
  const Operands check("group_norm_backward");
  check_operands(check, "group_norm_backward", x, channels, options);
  check.is("dy", dy, x.dtype, x.shape);
  check.is("dx", dx, x.dtype, x.shape);
  const bool accumulates = !dgamma.empty();
  if (accumulates) {
    check.is("dgamma", dgamma, DType::f32, channels.gamma.shape);
    check.is("dbeta", dbeta, DType::f32, channels.gamma.shape);
    check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  }
  check.disjoint("dx", dx, "x", x);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check_given(check, given, 2, x);
  const bool sums = given.parts.empty();
  const BatchNormChannels& by = channels;
  TRIREME_DISPATCH(stream, group_norm_backward,
                   reads(dy, x, by.gamma, by.variance, by.mean, given.parts)
                       .reads_if(sums, dy, x, by.mean)
                       .reads_if(accumulates, by.variance)
                       .reads_if(options.relu, by.gamma, by.beta, by.variance)
                       .reads_if(options.relu && sums, by.gamma, by.beta, by.variance)
                       .updates(dgamma, dbeta)
                       .writes(dx)
                       .kernels((sums ? 4 : 3) + (accumulates ? 1 : 0)),
                   dx, dgamma, dbeta, dy, x, channels, options, given);
}

}  // namespace trireme::ops
