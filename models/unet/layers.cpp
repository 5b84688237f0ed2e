// SPDX-License-Identifier: Apache-2.0
#include "models/unet/layers.h"

#include <algorithm>
#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/activation.h"
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

constexpr float slope = 0.01F;  // of UNetActivation::leaky_relu

// Whether the level before has this one's first convolution.
bool begins_above(const UNetOptions& options, std::int64_t level) {
  return options.down == UNetDown::stride && level > 0;
}

Shape output_of(const Shape& input, const UNetOptions& options, std::int64_t level) {
  if (level == options.levels) return with_channels(input, options.filters_of(level));
  return with_channels(input,
                       options.filters_of(level + (options.down == UNetDown::stride ? 1 : 0)), 2);
}

std::int64_t outputs_of(const UNetOptions& options) {
  return options.values > 0 ? options.values : options.classes;
}

std::variant<PixelLoss, ValueLoss> make_loss(Blueprint& blueprint, const UNetOptions& options,
                                             const TrainConfig& train) {
  const Shape& input = blueprint.input();
  if (options.values > 0) {
    const Shape outputs = with_channels(input, options.values);
    return ValueLoss(blueprint, Shape(outputs.extents().subspan(1)),
                     value_loss_choice(train, OutputTransform::none, 1));
  }
  return PixelLoss(blueprint, pixels_of(input), options.classes,
                   {options.class_weights.begin(), options.class_weights.end()},
                   train.loss == LossChoice::dice_cross_entropy);
}

std::variant<BatchNorm, GroupNorm> make_norm(Blueprint& blueprint, std::string_view name,
                                             const Shape& shape, const UNetOptions& options) {
  const bool relu = options.nonlinearity == UNetActivation::relu;
  if (options.norm == UNetNormKind::batch) return BatchNorm(blueprint, name, shape, relu);
  const bool instance = options.norm == UNetNormKind::instance;
  return GroupNorm(blueprint, name, shape, instance ? shape.back() : options.norm_groups, relu);
}

// Norm and activation of the convolution's output.
void normalise(const Context& context, const UNetNorm& unit, const Tensor& y) {
  const Tensor x = context(unit.convolved);
  std::visit([&](const auto& norm) { norm.forward(context, as_image(y), as_image(x)); }, unit.norm);
  if (unit.activation == UNetActivation::leaky_relu)
    ops::leaky_relu_forward(context.stream, y, y, slope);
  if (unit.activation == UNetActivation::tanh) ops::tanh_forward(context.stream, y, y);
}
// Writes the gradient of the convolution's output to `to`, from that of y.
void normalise_backward(const Context& context, const UNetNorm& unit, const Tensor& to,
                        const Tensor& dy, const Tensor& y) {
  const Tensor x = context(unit.convolved);
  if (unit.activation == UNetActivation::leaky_relu)
    ops::leaky_relu_backward(context.stream, to, dy, y, slope);
  if (unit.activation == UNetActivation::tanh) ops::tanh_backward(context.stream, to, dy, y);
  const Tensor above = unit.activation == UNetActivation::relu ? dy : to;
  std::visit(
      [&](const auto& norm) { norm.backward(context, as_image(to), as_image(above), as_image(x)); },
      unit.norm);
}
// Returns it.
Tensor normalise_backward(const Context& context, const UNetNorm& unit, const Tensor& dy,
                          const Tensor& y) {
  const Tensor gradient = context(unit.gradient);
  normalise_backward(context, unit, gradient, dy, y);
  return gradient;
}

}  // namespace

UNetNorm::UNetNorm(Blueprint& blueprint, std::string_view name, const Shape& shape,
                   const UNetOptions& options)
    : norm(make_norm(blueprint, name, shape, options)),
      activation(options.nonlinearity),
      convolved(blueprint.keep(shape)),
      gradient(blueprint.scratch(shape)) {}

UNetEncoder::UNetEncoder(Blueprint& blueprint, const std::string& name, const UNetOptions& options,
                         std::int64_t level)
    : Layer(name, output_of(input_of(blueprint, options), options, level)),
      first_(begins_above(options, level)
                 ? std::optional<Convolution>{}
                 : Convolution(blueprint, "convolution1", input_of(blueprint, options),
                               options.filters_of(level), window, 1)),
      second_(blueprint, "convolution2", first_ ? first_->output_shape() : blueprint.input(),
              options.filters_of(level), window, 1),
      first_norm_(first_ ? UNetNorm(blueprint, "norm1", first_->output_shape(), options)
                         : std::optional<UNetNorm>{}),
      second_norm_(blueprint, "norm2", second_.output_shape(), options) {
  const Shape& result = second_.output_shape();
  if (first_) between_ = blueprint.keep(result);
  result_gradient_ = first_ ? first_norm_->gradient : blueprint.scratch(result);
  if (level == 0) {
    input_.emplace(blueprint, input_of(blueprint, options));
    axes_ = {{std::max<std::int64_t>(options.depth, 1), "model.depth"},
             {options.image_size, "model.image_size"},
             {options.width(), "model.image_width"}};
  }
  if (level == options.levels) return;
  skip_ = blueprint.offer(skip_name(level), result);
  if (options.down == UNetDown::pool) {
    pooling_.emplace(blueprint, result, 2);
    return;
  }
  down_.emplace(blueprint, "down", result, output_shape().back(), window, 2);
  down_norm_.emplace(blueprint, "down_norm", output_shape(), options);
}

void UNetEncoder::add_limits(ModelLimits& limits) const {
  if (!axes_.empty()) limits.axes = axes_;
}

void UNetEncoder::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor between = first_ ? context(between_) : x, result = skip_ ? context.skip(*skip_) : y;
  if (first_) {
    first_->forward(context, context(first_norm_->convolved),
                    input_ ? input_->forward(context, x) : x);
    normalise(context, *first_norm_, between);
  }
  second_.forward(context, context(second_norm_.convolved), between);
  normalise(context, second_norm_, result);
  if (pooling_) pooling_->forward(context, y, result);
  if (!down_) return;
  down_->forward(context, context(down_norm_->convolved), result);
  normalise(context, *down_norm_, y);
}

void UNetEncoder::backward(const Context& context, const Tensor& x, const Tensor& y,
                           const Tensor& dy, const Tensor& dx) {
  const Tensor result = skip_ ? context.skip(*skip_) : y;
  Tensor gradient = dy;
  if (skip_) {
    gradient = context(result_gradient_);
    if (pooling_) pooling_->backward(context, gradient, dy);
    if (down_) {
      down_->backward(context, gradient, normalise_backward(context, *down_norm_, dy, y), result);
    }
    ops::add_in_place(context.stream, gradient, context.skip_gradient(*skip_));
  }
  const Tensor second = normalise_backward(context, second_norm_, gradient, result);
  if (!first_) return second_.backward(context, dx, second, x);
  const Tensor between = context(first_norm_->gradient), first = context(second_norm_.gradient);
  second_.backward(context, between, second, context(between_));
  normalise_backward(context, *first_norm_, first, between, context(between_));
  first_->backward(context, dx, first, input_ ? input_->kept(context, x) : x);
}

UNetDecoder::UNetDecoder(Blueprint& blueprint, const std::string& name, const UNetOptions& options,
                         std::int64_t level)
    : Layer(name, shape_of(blueprint, skip_name(level))),
      skip_(blueprint.take(skip_name(level))),
      up_(blueprint, "up", blueprint.input().back(), output_shape(), 2),
      of_skip_(blueprint, "convolution1.skip", output_shape(), output_shape().back(), window, 1),
      of_up_(blueprint, "convolution1.up", output_shape(), output_shape().back(), window, 1),
      second_(blueprint, "convolution2", output_shape(), output_shape().back(), window, 1),
      first_norm_(blueprint, "norm1", output_shape(), options),
      second_norm_(blueprint, "norm2", output_shape(), options),
      raised_(blueprint.keep(output_shape())),
      between_(blueprint.keep(output_shape())),
      part_(blueprint.scratch(output_shape())) {}

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

void UNetDecoder::backward(const Context& context, const Tensor& x, const Tensor& y,
                           const Tensor& dy, const Tensor& dx) {
  const Tensor part = context(part_), between = context(between_);
  second_.backward(context, part, normalise_backward(context, second_norm_, dy, y), between);
  const Tensor first = normalise_backward(context, first_norm_, part, between);
  of_skip_.backward(context, context.skip_gradient(skip_.id), first, context.skip(skip_.id));
  of_up_.backward(context, part, first, context(raised_));
  up_.backward(context, dx, part, x);
}

UNetHead::UNetHead(Blueprint& blueprint, const UNetOptions& options, const TrainConfig& train)
    : Layer("head", Shape{}),
      linear_(blueprint, options.values > 0 ? "output" : "classifier", blueprint.input().back(),
              outputs_of(options),
              Init::uniform(1.0F / std::sqrt(static_cast<float>(blueprint.input().back()))),
              /*bias=*/true, blueprint.input()),
      loss_(make_loss(blueprint, options, train)),
      logits_(blueprint.keep(with_channels(blueprint.input(), outputs_of(options)))),
      info_(std::visit([&](const auto& loss) { return loss.head(logits_); }, loss_)) {}

void UNetHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor logits = context(logits_);
  linear_.forward(context, logits, x);
  std::visit([&](const auto& loss) { loss.forward(context, logits); }, loss_);
}

void UNetHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                        const Tensor& /*dy*/, const Tensor& dx) {
  linear_.backward(context, dx, context(logits_), x);
}

}  // namespace trireme
