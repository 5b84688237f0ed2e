// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/stem.h"

namespace trireme {
namespace {

constexpr ops::PoolingOptions stem_pool{.window = 3, .stride = 2, .padding = 1};

Shape image_shape(const Blueprint& blueprint, const ResNetOptions& options) {
  return {blueprint.micro_batch(), options.image_size, options.image_size, options.channels};
}

// Also the shape of what the stem hands on: follows from the options alone.
Shape stem_output(const Blueprint& blueprint, const ResNetOptions& options) {
  const std::int64_t window = options.small_stem ? 3 : 7;
  const Shape convolved = ops::convolution_output_shape(
      image_shape(blueprint, options), Shape{options.width, window, window, options.channels},
      {.stride = options.small_stem ? 1 : 2, .padding = window / 2});
  return options.small_stem ? convolved : ops::max_pool_output_shape(convolved, stem_pool);
}

}  // namespace

ResNetStem::ResNetStem(Blueprint& blueprint, const ResNetOptions& options)
    : Layer("stem", stem_output(blueprint, options)),
      options_(options),
      image_(blueprint.keep(image_shape(blueprint, options))),
      convolution_(blueprint, "convolution", image_.shape, options.width,
                   options.small_stem ? 3 : 7, options.small_stem ? 1 : 2),
      norm_(blueprint, "norm", convolution_.output_shape(), /*relu=*/true),
      convolved_(blueprint.keep(convolution_.output_shape())),
      dnormed_(blueprint.scratch(convolution_.output_shape())) {
  if (options.small_stem) return;
  normed_ = blueprint.keep(convolution_.output_shape());
  pool_index_ = blueprint.keep(output_shape(), DType::u8);
}

void ResNetStem::forward(const Context& context, const Tensor& x, const Tensor& y) {
  ops::AugmentOptions augment = options_.augment;
  augment.random = context.training;
  const Tensor image = context(image_), convolved = context(convolved_);
  ops::augment(context.stream, image, x, context.batch.sample_ids, context.batch.epochs, augment);
  convolution_.forward(context, convolved, image);
  const Tensor normed = pool_index_ ? context(normed_) : y;
  norm_.forward(context, normed, convolved);
  if (pool_index_)
    ops::max_pool_forward(context.stream, y, context(*pool_index_), normed, stem_pool);
}

void ResNetStem::backward(const Context& context, const Tensor& /*x*/, const Tensor& y,
                          const Tensor& dy, const Tensor& /*dx*/) {
  const Tensor dnormed = context(dnormed_);
  const Tensor normed = pool_index_ ? context(normed_) : y;
  if (pool_index_)
    ops::max_pool_backward(context.stream, dnormed, dy, context(*pool_index_), stem_pool);
  norm_.backward(context, dnormed, pool_index_ ? dnormed : dy, context(convolved_), normed);
  convolution_.backward(context, {}, dnormed, context(image_));
}

}  // namespace trireme
