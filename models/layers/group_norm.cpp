// SPDX-License-Identifier: Apache-2.0
#include "models/layers/group_norm.h"

#include "models/layers/batch_norm.h"
#include "models/layers/blocks.h"

namespace trireme {
namespace {

// The pixels of sample n as an image.
Tensor sample_of(const Tensor& x, std::int64_t n) {
  return block_of(x, n, {1, x.shape.rows() / x.shape[0], 1, x.shape.back()});
}

}  // namespace

GroupNorm::GroupNorm(Blueprint& blueprint, std::string_view name, const Shape& input,
                     std::int64_t groups, bool relu)
    : slabs_(blueprint.spatial(), input), options_{.groups = groups, .relu = relu} {
  const auto scope = blueprint.scope(name);
  const Shape channels{input.back()}, statistics{input[0], input.back()};
  weight_ =
      blueprint.parameter({.name = "weight", .shape = channels, .init = Init::constant(1.0F)});
  bias_ = blueprint.parameter({.name = "bias", .shape = channels});
  mean_ = blueprint.keep(statistics, DType::f32);
  variance_ = blueprint.keep(statistics, DType::f32);
  if (!slabs_.cut()) return;
  statistics_ = SlabParts(blueprint, slabs_, 3 * input[0], channels[0]);
  if (blueprint.options().training) sums_ = SlabParts(blueprint, slabs_, 2 * input[0], channels[0]);
}

ops::BatchNormChannels GroupNorm::channels(const Context& context) const {
  return {context.params.compute(weight_), context.params.compute(bias_), context(mean_),
          context(variance_)};
}

void GroupNorm::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const ops::BatchNormChannels by = channels(context);
  if (!slabs_.cut()) return ops::group_norm_forward(context.stream, y, x, by, options_);
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    const Tensor slab = slabs_.of(x, slabs_.local()[i]), part = statistics_.own(context, i);
    for (std::int64_t n = 0; n < slab.shape[0]; ++n)
      write_statistics(context, block_of(part, n, {3, slab.shape.back()}), sample_of(slab, n));
  }
  const ops::NormParts all{statistics_.gather(context), pixels()};
  for (const Slabs::Slab& slab : slabs_.local())
    ops::group_norm_forward(context.stream, slabs_.of(y, slab), slabs_.of(x, slab), by, options_,
                            all);
}

ops::NormParts GroupNorm::gradient_sums(const Context& context, const Tensor& dy,
                                        const Tensor& x) const {
  const ops::BatchNormChannels by = channels(context);
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    const Slabs::Slab& slab = slabs_.local()[i];
    const Tensor of_dy = slabs_.of(dy, slab), of_x = slabs_.of(x, slab);
    const Shape row{of_x.shape.back()};
    for (std::int64_t n = 0; n < of_x.shape[0]; ++n)
      ops::batch_norm_gradient_sums(
          context.stream, block_of(sums_.own(context, i), n, {2, row[0]}), sample_of(of_dy, n),
          sample_of(of_x, n),
          {by.gamma, by.beta, block_of(by.mean, n, row), block_of(by.variance, n, row)},
          {.epsilon = options_.epsilon, .relu = options_.relu});
  }
  return {sums_.gather(context), pixels()};
}

void GroupNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x) const {
  const ParamStore& params = context.params;
  const ops::BatchNormChannels by = channels(context);
  Tensor dgamma = params.gradient(weight_), dbeta = params.gradient(bias_);
  if (!slabs_.cut()) {
    ops::group_norm_backward(context.stream, dx, dgamma, dbeta, dy, x, by, options_);
  } else {
    const ops::NormParts all = gradient_sums(context, dy, x);
    for (const Slabs::Slab& slab : slabs_.local()) {
      ops::group_norm_backward(context.stream, slabs_.of(dx, slab), dgamma, dbeta,
                               slabs_.of(dy, slab), slabs_.of(x, slab), by, options_, all);
      dgamma = dbeta = {};  // the sums are of all slabs
    }
  }
  for (const ParamId id : {bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
