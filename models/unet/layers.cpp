// SPDX-License-Identifier: Apache-2.0
#include "models/unet/layers.h"

#include <algorithm>
#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

constexpr std::int64_t window = 3;

// With each axis divided by `shrink`.
Shape with_channels(const Shape& shape, std::int64_t channels, std::int64_t shrink = 1) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  for (std::size_t axis = 1; axis + 1 < extents.size(); ++axis)
    extents[axis] /= shrink;
  extents.back() = channels;
  return Shape(extents);
}

// The pixels' extents of (N, axes, C).
Shape pixels_of(const Shape& shape) {
  return Shape(shape.extents().subspan(1, shape.rank() - 2));
}

Shape input_of(const Blueprint& blueprint, const UNetOptions& options) {
  return blueprint.input().rank() > 0 ? blueprint.input() : options.input(blueprint.micro_batch());
}

std::string skip_name(std::int64_t level) {
  return fmt::format("level{}", level);
}

Shape shape_of(const Blueprint& blueprint, const std::string& skip) {
  const auto name_of = [](const OpenSkip& open) { return open.skip.name; };
  const auto found = std::ranges::find(blueprint.open_skips(), skip, name_of);
  TRIREME_EXPECTS(found != blueprint.open_skips().end(), "no encoder offers {}", skip);
  return found->skip.shape;
}

// norm and ReLU of the convolution's output.
void normalise(const Context& context, const UNetNorm& unit, const Tensor& y) {
  unit.norm.forward(context, as_image(y), as_image(context(unit.convolved)));
}
// Returns the gradient of the convolution's output.
Tensor normalise_backward(const Context& context, const UNetNorm& unit, const Tensor& dy) {
  const Tensor gradient = context(unit.gradient);
  unit.norm.backward(context, as_image(gradient), as_image(dy), as_image(context(unit.convolved)));
  return gradient;
}

}  // namespace

UNetNorm::UNetNorm(Blueprint& blueprint, std::string_view name, const Shape& shape)
    : norm(blueprint, name, shape, /*relu=*/true),
      convolved(blueprint.keep(shape)),
      gradient(blueprint.scratch(shape)) {}

UNetEncoder::UNetEncoder(Blueprint& blueprint, const std::string& name, const UNetOptions& options,
                         std::int64_t level)
    : Layer(name, with_channels(input_of(blueprint, options), options.filters << level,
                                level < options.levels ? 2 : 1)),
      first_(blueprint, "convolution1", input_of(blueprint, options), output_shape().back(), window,
             1),
      second_(blueprint, "convolution2", first_.output_shape(), output_shape().back(), window, 1),
      first_norm_(blueprint, "norm1", first_.output_shape()),
      second_norm_(blueprint, "norm2", second_.output_shape()),
      between_(blueprint.keep(first_.output_shape())) {
  if (level == 0) {
    input_.emplace(blueprint, input_of(blueprint, options));
    axes_ = {{std::max<std::int64_t>(options.depth, 1), "model.depth"},
             {options.image_size, "model.image_size"},
             {options.width(), "model.image_width"}};
  }
  if (level == options.levels) return;
  skip_ = blueprint.offer(skip_name(level), second_.output_shape());
  pooling_.emplace(blueprint, second_.output_shape(), 2);
}

void UNetEncoder::add_limits(ModelLimits& limits) const {
  if (!axes_.empty()) limits.axes = axes_;
}

void UNetEncoder::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor between = context(between_), result = skip_ ? context.skip(*skip_) : y;
  first_.forward(context, context(first_norm_.convolved), input_ ? input_->forward(context, x) : x);
  normalise(context, first_norm_, between);
  second_.forward(context, context(second_norm_.convolved), between);
  normalise(context, second_norm_, result);
  if (pooling_) pooling_->forward(context, y, result);
}

void UNetEncoder::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                           const Tensor& dy, const Tensor& dx) {
  Tensor gradient = dy;
  if (skip_) {
    gradient = context(first_norm_.gradient);
    pooling_->backward(context, gradient, dy);
    ops::add_in_place(context.stream, gradient, context.skip_gradient(*skip_));
  }
  const Tensor second = normalise_backward(context, second_norm_, gradient);
  const Tensor between = context(first_norm_.gradient);
  second_.backward(context, between, second, context(between_));
  const Tensor first = context(second_norm_.gradient);
  first_norm_.norm.backward(context, as_image(first), as_image(between),
                            as_image(context(first_norm_.convolved)));
  first_.backward(context, dx, first, input_ ? input_->kept(context, x) : x);
}

UNetDecoder::UNetDecoder(Blueprint& blueprint, const std::string& name, std::int64_t level)
    : Layer(name, shape_of(blueprint, skip_name(level))),
      skip_(blueprint.take(skip_name(level))),
      up_(blueprint, "up", blueprint.input().back(), output_shape(), 2),
      of_skip_(blueprint, "convolution1.skip", output_shape(), output_shape().back(), window, 1),
      of_up_(blueprint, "convolution1.up", output_shape(), output_shape().back(), window, 1),
      second_(blueprint, "convolution2", output_shape(), output_shape().back(), window, 1),
      first_norm_(blueprint, "norm1", output_shape()),
      second_norm_(blueprint, "norm2", output_shape()),
      raised_(blueprint.keep(output_shape())),
      between_(blueprint.keep(output_shape())),
      part_(blueprint.scratch(output_shape())) {}

double UNetDecoder::forward_flops() const {
  return up_.forward_flops() + of_skip_.forward_flops() + of_up_.forward_flops() +
         second_.forward_flops();
}

void UNetDecoder::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor raised = context(raised_), part = context(part_), between = context(between_);
  const Tensor convolved = context(first_norm_.convolved);
  up_.forward(context, raised, x);
  of_skip_.forward(context, convolved, context.skip(skip_.id));
  of_up_.forward(context, part, raised);
  ops::add_in_place(context.stream, convolved, part);
  normalise(context, first_norm_, between);
  second_.forward(context, context(second_norm_.convolved), between);
  normalise(context, second_norm_, y);
}

void UNetDecoder::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                           const Tensor& dy, const Tensor& dx) {
  const Tensor part = context(part_);
  second_.backward(context, part, normalise_backward(context, second_norm_, dy), context(between_));
  const Tensor first = normalise_backward(context, first_norm_, part);
  of_skip_.backward(context, context.skip_gradient(skip_.id), first, context.skip(skip_.id));
  of_up_.backward(context, part, first, context(raised_));
  up_.backward(context, dx, part, x);
}

UNetHead::UNetHead(Blueprint& blueprint, const UNetOptions& options)
    : Layer("head", Shape{}),
      linear_(blueprint, "classifier", blueprint.input().back(), options.classes,
              Init::uniform(1.0F / std::sqrt(static_cast<float>(blueprint.input().back()))),
              /*bias=*/true, blueprint.input()),
      loss_(blueprint, pixels_of(blueprint.input()), options.classes,
            {options.class_weights.begin(), options.class_weights.end()}),
      logits_(blueprint.keep(with_channels(blueprint.input(), options.classes))),
      info_(loss_.head(logits_)),
      ranks_(static_cast<double>(blueprint.spatial().rank_count())) {}

void UNetHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor logits = context(logits_);
  linear_.forward(context, logits, x);
  loss_.forward(context, logits);
}

void UNetHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                        const Tensor& /*dy*/, const Tensor& dx) {
  linear_.backward(context, dx, context(logits_), x);
}

}  // namespace trireme
