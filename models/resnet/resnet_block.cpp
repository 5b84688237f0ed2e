// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet_block.h"

#include <numeric>

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

Shape block_output(const Shape& input, const ResNetBlockOptions& options) {
  const auto shrink = [&](std::int64_t extent) { return (extent - 1) / options.stride + 1; };
  return {input[0], shrink(input[1]), shrink(input[2]), options.outputs()};
}

}  // namespace

ResNetBlock::Unit::Unit(Blueprint& blueprint, std::string_view name, const Shape& input,
                        std::int64_t outputs, std::int64_t window, std::int64_t stride, bool relu,
                        float initial_scale)
    : convolution(blueprint, fmt::format("convolution{}", name), input, outputs, window, stride),
      norm(blueprint, fmt::format("norm{}", name), convolution.output_shape(), relu, initial_scale),
      convolved(blueprint.keep(convolution.output_shape())),
      normed(relu ? blueprint.keep(convolution.output_shape())
                  : blueprint.scratch(convolution.output_shape())),
      gradient(blueprint.scratch(convolution.output_shape())) {}

ResNetBlock::ResNetBlock(Blueprint& blueprint, std::string name, const ResNetBlockOptions& options)
    : Layer(std::move(name), block_output(blueprint.input(), options)) {
  const Shape& input = blueprint.input();
  const std::int64_t width = options.width, outputs = options.outputs();
  branch_.reserve(3);
  if (options.bottleneck) {
    branch_.emplace_back(blueprint, "1", input, width, 1, 1, true, 1.0F);
    branch_.emplace_back(blueprint, "2", branch_[0].convolution.output_shape(), width, 3,
                         options.stride, true, 1.0F);
    branch_.emplace_back(blueprint, "3", branch_[1].convolution.output_shape(), outputs, 1, 1,
                         false, 0.0F);
  } else {
    branch_.emplace_back(blueprint, "1", input, width, 3, options.stride, true, 1.0F);
    branch_.emplace_back(blueprint, "2", branch_[0].convolution.output_shape(), outputs, 3, 1,
                         false, 0.0F);
  }
  if (input == output_shape()) return;
  shortcut_.emplace(blueprint, "_shortcut", input, outputs, 1, options.stride, false, 1.0F);
  dx_shortcut_ = blueprint.scratch(input);
}

void ResNetBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  Tensor at = x;
  for (const Unit& unit : branch_) {
    const Tensor convolved = context(unit.convolved), normed = context(unit.normed);
    unit.convolution.forward(context, convolved, at);
    unit.norm.forward(context, normed, convolved);
    at = normed;
  }
  Tensor shortcut = x;
  if (shortcut_) {
    const Tensor convolved = context(shortcut_->convolved);
    shortcut = context(shortcut_->normed);
    shortcut_->convolution.forward(context, convolved, x);
    shortcut_->norm.forward(context, shortcut, convolved);
  }
  ops::relu_forward(context.stream, y, at, shortcut);
}

void ResNetBlock::backward(const Context& context, const Tensor& x, const Tensor& y,
                           const Tensor& dy, const Tensor& dx) {
  ops::relu_backward(context.stream, dy, dy, y);  // dy is now the gradient of both summands
  Tensor gradient = dy;
  for (std::size_t i = branch_.size(); i-- > 0;) {
    const Unit& unit = branch_[i];
    const Tensor dconvolved = context(unit.gradient);
    const Tensor normed = i + 1 < branch_.size() ? context(unit.normed) : Tensor{};
    unit.norm.backward(context, dconvolved, gradient, context(unit.convolved), normed);
    const Tensor input = i > 0 ? context(branch_[i - 1].normed) : x;
    const Tensor dinput = i > 0 ? context(branch_[i - 1].gradient) : dx;
    unit.convolution.backward(context, dinput, dconvolved, input);
    gradient = dinput;
  }
  if (!shortcut_) {
    ops::add_in_place(context.stream, dx, dy);
    return;
  }
  const Tensor dconvolved = context(shortcut_->gradient), dx_shortcut = context(dx_shortcut_);
  shortcut_->norm.backward(context, dconvolved, dy, context(shortcut_->convolved), {});
  shortcut_->convolution.backward(context, dx_shortcut, dconvolved, x);
  ops::add_in_place(context.stream, dx, dx_shortcut);
}

double ResNetBlock::forward_flops() const {
  const double branch = std::accumulate(
      branch_.begin(), branch_.end(), 0.0,
      [](double sum, const Unit& unit) { return sum + unit.convolution.forward_flops(); });
  return branch + (shortcut_ ? shortcut_->convolution.forward_flops() : 0.0);
}

}  // namespace trireme
