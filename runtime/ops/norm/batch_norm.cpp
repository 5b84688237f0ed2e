// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/batch_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(batch_norm_statistics, batch_norm_join, batch_norm_apply, batch_norm_gradient_sums,
                batch_norm_backward);

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

void check_channels(const Operands& check, const Shape& expected,
                    const BatchNormChannels& channels) {
  check_per_channel(check, expected,
                    {{"gamma", channels.gamma},
                     {"beta", channels.beta},
                     {"mean", channels.mean},
                     {"variance", channels.variance}});
}

void check_running(const Operands& check, const Shape& channels, const Tensor& mean,
                   const Tensor& variance, const BatchNormRunning& running) {
  check_per_channel(check, channels, {{"mean", mean}, {"variance", variance}});
  check.disjoint("mean", mean, "variance", variance);
  if (running.mean_sum.empty() && running.variance_sum.empty()) return;
  check_per_channel(check, channels,
                    {{"mean_sum", running.mean_sum}, {"variance_sum", running.variance_sum}});
  check.disjoint("mean_sum", running.mean_sum, "mean", mean);
  check.disjoint("variance_sum", running.variance_sum, "variance", variance);
}

// parts(S, rows, C).
void check_parts(const Operands& check, const Tensor& parts, std::int64_t rows,
                 const Shape& channels) {
  check.rank("parts", parts, 3);
  check.is("parts", parts, DType::f32, {parts.shape[0], rows, channels[0]});
}

}  // namespace

void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running) {
  const Operands check("batch_norm_statistics");
  const Shape channels = check_activations(check, {{"x", x}});
  check_running(check, channels, mean, variance, running);
  TRIREME_DISPATCH(
      stream, batch_norm_statistics,
      reads(x).writes(mean, variance).updates(running.mean_sum, running.variance_sum).kernels(2),
      mean, variance, x, running);
}

void batch_norm_join(Stream& stream, const Tensor& mean, const Tensor& variance,
                     const Tensor& parts, const BatchNormRunning& running) {
  const Operands check("batch_norm_join");
  check_running(check, mean.shape, mean, variance, running);
  check_parts(check, parts, 3, mean.shape);
  TRIREME_DISPATCH(
      stream, batch_norm_join,
      reads(parts).writes(mean, variance).updates(running.mean_sum, running.variance_sum), mean,
      variance, parts, running);
}

void batch_norm_apply(Stream& stream, const Tensor& y, const Tensor& x,
                      const BatchNormChannels& channels, const BatchNormOptions& options,
                      const BatchNormSummand& summand) {
  const Operands check("batch_norm_apply");
  const Shape per_channel = check_activations(check, {{"x", x}, {"y", y}});
  check_channels(check, per_channel, channels);
  check.same_or_disjoint("y", y, "x", x);
  if (!summand.x.empty()) {
    check.is("summand", summand.x, x.dtype, x.shape);
    check.same_or_disjoint("y", y, "summand", summand.x);
  }
  if (!summand.channels.gamma.empty()) {
    check.present("summand", summand.x);
    check_channels(check, per_channel, summand.channels);
  }
  const BatchNormChannels &own = channels, &other = summand.channels;
  TRIREME_DISPATCH(stream, batch_norm_apply,
                   reads(x, own.gamma, own.beta, own.mean, own.variance, summand.x)
                       .reads(other.gamma, other.beta, other.mean, other.variance)
                       .writes(y),
                   y, x, channels, options, summand);
}

void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options) {
  const Operands check("batch_norm_gradient_sums");
  const Shape per_channel = check_activations(check, {{"x", x}, {"dy", dy}});
  check_channels(check, per_channel, channels);
  check.is("sums", sums, DType::f32, {2, per_channel[0]});
  const BatchNormChannels& of = channels;
  TRIREME_DISPATCH(stream, batch_norm_gradient_sums,
                   reads(dy, x, of.mean)
                       .reads_if(options.relu, of.gamma, of.beta, of.variance)
                       .writes(sums)
                       .kernels(2),
                   sums, dy, x, channels, options);
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum, const NormParts& given) {
  const Operands check("batch_norm_backward");
  const Shape per_channel = check_activations(check, {{"x", x}, {"dy", dy}, {"dx", dx}});
  check_channels(check, per_channel, channels);
  check_per_channel(check, per_channel, {{"dgamma", dgamma}, {"dbeta", dbeta}});
  check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  check.disjoint("dx", dx, "x", x);
  if (sum.empty()) {
    check.same_or_disjoint("dx", dx, "dy", dy);
  } else {
    TRIREME_EXPECTS(options.relu, "batch_norm_backward: a sum is only used if ReLU followed it");
    check.is("sum", sum, x.dtype, x.shape);
    check.disjoint("dx", dx, "dy", dy);
    check.disjoint("dx", dx, "sum", sum);
    check.disjoint("dy", dy, "sum", sum);
  }
  const bool has_sums = !given.parts.empty();
  if (has_sums) {
    check_parts(check, given.parts, 2, per_channel);
    TRIREME_EXPECTS(sum.empty() && given.values > 0,
                    "batch_norm_backward: given sums are of {} values, without a summand",
                    given.values);
  }
  // Sums, then per-channel factors, then dx.
  const bool normalises = options.relu && sum.empty();
  const BatchNormChannels& of = channels;
  TRIREME_DISPATCH(stream, batch_norm_backward,
                   reads(dy, x, of.gamma, of.variance, of.mean)
                       .reads_if(normalises, of.gamma, of.beta, of.variance)
                       .reads_if(!has_sums, sum, dy, x, of.mean)
                       .reads_if(!has_sums && normalises, of.gamma, of.beta, of.variance)
                       .reads(given.parts)
                       .updates(dgamma, dbeta)
                       .writes_if(!sum.empty(), dy)
                       .writes(dx)
                       .kernels(has_sums ? 2 : 3),
                   dx, dgamma, dbeta, dy, x, channels, options, sum, given);
}

}  // namespace trireme::ops
