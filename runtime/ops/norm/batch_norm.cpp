// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/batch_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(batch_norm_forward);
TRIREME_KERNEL(batch_norm_inference);
TRIREME_KERNEL(batch_norm_backward);
TRIREME_KERNEL(batch_norm_collect);

namespace {

struct Named {
  std::string_view name;
  const Tensor& tensor;
};

Shape check_activations(const Operands& check, std::initializer_list<Named> activations) {
  const Named& first = *activations.begin();
  check.compute_dtype(first.name, first.tensor);
  check.rank(first.name, first.tensor, 4);
  TRIREME_EXPECTS(first.tensor.count() > 0, "batch_norm: {} {} is empty", first.name,
                  first.tensor.shape.to_string());
  for (const Named& other : activations) {
    check.is(other.name, other.tensor, first.tensor.dtype, first.tensor.shape);
  }
  return Shape{first.tensor.shape[3]};
}

void check_per_channel(const Operands& check, const Shape& channels,
                       std::initializer_list<Named> tensors) {
  for (const Named& each : tensors)
    check.is(each.name, each.tensor, DType::f32, channels);
}

}  // namespace

void batch_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& variance,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormOptions& options) {
  const Operands check("batch_norm_forward");
  const Shape channels = check_activations(check, {{"x", x}, {"y", y}});
  check_per_channel(check, channels,
                    {{"mean", mean}, {"variance", variance}, {"gamma", gamma}, {"beta", beta}});
  check.disjoint("y", y, "x", x);
  check.disjoint("mean", mean, "variance", variance);
  TRIREME_DISPATCH(stream, batch_norm_forward, y, mean, variance, x, gamma, beta, options);
}

void batch_norm_inference(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& mean, const Tensor& variance,
                          const BatchNormOptions& options) {
  const Operands check("batch_norm_inference");
  const Shape channels = check_activations(check, {{"x", x}, {"y", y}});
  check_per_channel(check, channels,
                    {{"mean", mean}, {"variance", variance}, {"gamma", gamma}, {"beta", beta}});
  check.same_or_disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, batch_norm_inference, y, x, gamma, beta, mean, variance, options);
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x, const Tensor& y,
                         const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                         const BatchNormOptions& options) {
  const Operands check("batch_norm_backward");
  const Shape channels = check_activations(check, {{"x", x}, {"dy", dy}, {"dx", dx}});
  check_per_channel(check, channels,
                    {{"dgamma", dgamma},
                     {"dbeta", dbeta},
                     {"gamma", gamma},
                     {"mean", mean},
                     {"variance", variance}});
  check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "x", x);
  if (options.relu) {
    check.is("y", y, x.dtype, x.shape);
    check.disjoint("dx", dx, "y", y);
  }
  TRIREME_DISPATCH(stream, batch_norm_backward, dx, dgamma, dbeta, dy, x, y, gamma, mean, variance,
                   options);
}

void batch_norm_collect(Stream& stream, const Tensor& mean_sum, const Tensor& variance_sum,
                        const Tensor& mean, const Tensor& variance, std::int64_t n, float weight) {
  const Operands check("batch_norm_collect");
  check.present("mean", mean);
  check.rank("mean", mean, 1);
  check_per_channel(check, mean.shape,
                    {{"mean", mean},
                     {"variance", variance},
                     {"mean_sum", mean_sum},
                     {"variance_sum", variance_sum}});
  check.disjoint("mean_sum", mean_sum, "mean", mean);
  check.disjoint("variance_sum", variance_sum, "variance", variance);
  TRIREME_EXPECTS(n > 0, "batch_norm_collect: {} values a channel", n);
  TRIREME_DISPATCH(stream, batch_norm_collect, mean_sum, variance_sum, mean, variance, n, weight);
}

}  // namespace trireme::ops
