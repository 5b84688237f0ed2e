// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/stem.h"

#include <cmath>

#include "runtime/ops/convolution/pooling.h"

namespace trireme {
namespace {

constexpr ops::PoolingOptions stem_pool{.window = 3, .stride = 2, .padding = 1};

bool is_small(const ResNetOptions& options) {
  return options.stem == ResNetStemKind::small;
}
std::int64_t window_of(const ResNetOptions& options) {
  return is_small(options) ? 3 : 7;
}
std::int64_t stride_of(const ResNetOptions& options) {
  return is_small(options) ? 1 : 2;
}

Shape image_shape(const Blueprint& blueprint, const ResNetOptions& options) {
  const std::int64_t width = width_of_images(options), channels = options.channels;
  if (options.depth > 0)
    return {blueprint.micro_batch(), options.depth, options.image_size, width, channels};
  return {blueprint.micro_batch(), options.image_size, width, channels};
}

// The stem's output shape, from the options alone.
Shape stem_output(const Blueprint& blueprint, const ResNetOptions& options) {
  const std::int64_t window = window_of(options);
  const Shape image = image_shape(blueprint, options);
  std::vector<std::int64_t> filters(image.rank(), window);
  filters.front() = options.width;
  filters.back() = options.channels;
  const Shape convolved = ops::convolution_output_shape(
      image, Shape(filters), {.stride = stride_of(options), .padding = window / 2});
  return is_small(options) ? convolved : ops::max_pool_output_shape(convolved, stem_pool);
}

}  // namespace

ResNetStem::ResNetStem(Blueprint& blueprint, const ResNetOptions& options,
                       const ops::AugmentOptions& augment)
    : Layer("stem", stem_output(blueprint, options)),
      input_(blueprint, as_image(Tensor{.shape = image_shape(blueprint, options)}).shape, augment),
      image_(blueprint.keep(image_shape(blueprint, options))),
      convolution_(blueprint, "convolution", image_.shape, options.width, window_of(options),
                   stride_of(options)),
      norm_(blueprint, "norm", convolution_.output_shape(), /*relu=*/true),
      convolved_(blueprint.keep(convolution_.output_shape())),
      normed_(blueprint.scratch(convolution_.output_shape())) {
  if (is_small(options)) return;
  pool_index_ = blueprint.keep(output_shape(), DType::u8);
}

void ResNetStem::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor image = context(image_), convolved = context(convolved_);
  input_.forward(context, as_image(image), as_image(x));
  convolution_.forward(context, convolved, image);
  const Tensor normed = pool_index_ ? context(normed_) : y;
  norm_.forward(context, normed, convolved);
  if (pool_index_)
    ops::max_pool_forward(context.stream, y, context(*pool_index_), normed, stem_pool);
}

void ResNetStem::backward(const Context& context, const Tensor& /*x*/, const Tensor& /*y*/,
                          const Tensor& dy, const Tensor& /*dx*/) {
  const Tensor gradient = context(normed_);
  if (pool_index_)
    ops::max_pool_backward(context.stream, gradient, dy, context(*pool_index_), stem_pool);
  norm_.backward(context, gradient, pool_index_ ? gradient : dy, context(convolved_));
  convolution_.backward(context, {}, gradient, context(image_));
}

ResNetHead::ResNetHead(Blueprint& blueprint, const HeadChoice& head, const ops::MixOptions& mix)
    : Layer("head", Shape{}),
      linear_(blueprint, "classifier", blueprint.input().back(), head.outputs,
              Init::uniform(1.0F / std::sqrt(static_cast<float>(blueprint.input().back())))),
      loss_(blueprint, head, mix),
      pooled_(blueprint.keep({blueprint.input()[0], blueprint.input().back()})),
      dpooled_(blueprint.scratch(pooled_.shape)) {
  info_ = loss_.head(blueprint.keep({pooled_.shape[0], head.outputs}));
}

void ResNetHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor pooled = context(pooled_), logits = context(info_.logits);
  ops::global_average_pool_forward(context.stream, pooled, x);
  linear_.forward(context, logits, pooled);
  loss_.forward(context, logits);
}

void ResNetHead::backward(const Context& context, const Tensor& /*x*/, const Tensor& /*y*/,
                          const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dpooled = context(dpooled_);
  linear_.backward(context, dpooled, context(info_.logits), context(pooled_));
  ops::global_average_pool_backward(context.stream, dx, dpooled);
}

}  // namespace trireme
